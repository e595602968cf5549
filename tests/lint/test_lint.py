# SPDX-License-Identifier: Apache-2.0
"""Every check finds what it is there for: each case plants one violation in a small tree that is
otherwise clean."""

import os
import re
import subprocess
import sys
import tempfile

import test_links
import tree

HERE = os.path.dirname(os.path.abspath(__file__))
SPDX = "/* SPDX-License-Identifier: Apache-2.0 */\n"
GUARDED = SPDX + "#pragma once\n{}"
CLEAN = {
    "kernels/common/a.h": GUARDED.format("\n/* Adds one. */\nint hd_one(int x);\n"),
    "kernels/common/a.c": SPDX + '#include "kernels/common/a.h"\n\nint hd_one(int x)\n{\n    return x + 1;\n}\n',
    "scripts/go": "#!/usr/bin/env bash\n# SPDX-License-Identifier: Apache-2.0\nset -euo pipefail\n",
}

RELEASE = {"CMakeLists.txt": "project(heddle VERSION 1.2.3 LANGUAGES C)\n", "CHANGELOG.md": "## [1.2.3] - 2026-04-05\n"}
CITATION = ("cff-version: 1.2.0\nmessage: Cite it.\ntitle: A\nauthors:\n  - name: B\nversion: 1.2.3\n"
            "date-released: 2026-04-05\nlicense: Apache-2.0\n")


def include(path, line):
    return {path: SPDX + f"#include {line}\n"}


# (check, files that are changed, what it must say; None: nothing)
CASES = [
    *((check, {}, None) for check in ("includes", "headers", "text", "comments", "rooms", "format", "opens", "scripts")),
    ("includes", include("kernels/common/a.c", "<starpu.h>"), r"kernels/common/a.c:2: starpu.h \(starpu\) may not"),
    ("includes", include("kernels/common/a.c", '"runtime/engine/session.h"'), "may not be seen by kernels/common/"),
    ("includes", include("runtime/base/a.c", '"runtime/value.h"'), "not be seen by runtime/base/"),
    ("includes", include("runtime/base/a.c", "<hwloc.h>"), "hwloc.h is for runtime/machine/topology.c alone"),
    ("includes", include("runtime/a.c", '"tasks/base/registry.h"'), "may not be seen by runtime/"),
    ("includes", include("runtime/comm/comm_shm.c", "<mpi.h>"), "mpi.h is for runtime/comm/comm_mpi.c alone"),
    ("includes", include("runtime/comm/comm_mpi.c", "<mpi.h>"), None),
    ("includes", include("tasks/base/a.c", '"runtime/engine/submit.h"'), "may not be seen by tasks/base/"),
    ("includes", include("tasks/base/a.c", '"runtime/value.h"'), None),
    ("includes", include("graph/language/a.c", '"kernels/common/a.h"'), "may not be seen by graph/language/"),
    ("includes", include("graph/language/a.c", '"runner/base/options.h"'), "may not be seen by graph/language/"),
    ("includes", include("runner/base/a.c", '"graph/plan/plan.h"'), None),
    ("includes", include("runner/train/a.c", '"runtime/engine/session_internal.h"'), "is internal"),
    ("includes", include("runner/base/a.c", '"kernels/common/a.h"'), "may not be seen by runner/base/"),
    ("includes", include("kernels/net/list/gpu/a.c", '"kernels/net/list/list_internal.h"'), None),
    ("includes", include("kernels/conv/a.c", '"kernels/net/net.h"'), "may not be seen by kernels/conv/"),
    ("includes", include("kernels/attic/a.c", '"kernels/attic/a.h"'), "its folder has no row"),
    ("includes", include("kernels/common/b.c", '"a.h"'), "is not included from the root"),
    ("includes", include("kernels/common/a.c", "<curl/curl.h>"), "is in no family"),
    ("headers", {"kernels/common/a.h": GUARDED.format("int64_t hd_one(int64_t x);")}, "compile alone with"),
    ("headers", {"kernels/common/a.h": GUARDED.format("int hd_one();")}, "does not compile alone"),
    ("headers", {"kernels/common/a.h": SPDX + "int hd_one(int x);\n"}, "no line '#pragma once'"),
    ("headers", {"kernels/common/a.cuh": SPDX + "int hd_one(int x);\n"}, "no line '#pragma once'"),
    ("headers", {"kernels/envs/env.h": GUARDED.format("int class;")}, r"does not compile alone with \S*c?\+\+"),
    ("opens", {"runtime/io/a.c": SPDX + 'FILE *f = fopen(name(x), "rb");\n'}, "a.c:2: fopen reads a file"),
    ("opens", {"runtime/io/a.c": SPDX + "int fd = open(path, O_RDONLY | O_NOFOLLOW);\n"}, "a.c:2: open reads a file"),
    ("opens", {"runtime/io/a.c": SPDX + 'FILE *f = fopen("/proc/self/stat", "r"), *g = fopen(path, "w");\n'}, None),
    ("text", {"kernels/common/a.c": "int x;\n"}, "a.c:1: no line 'SPDX"),
    ("text", {"README.md": "To do: TO" "DO\n"}, "README.md:1: marker of unfinished work"),
    ("text", {"kernels/common/a.c": SPDX + '/* see /ho' 'me/me/notes */\n'}, "a.c:2: path of one machine"),
    ("text", {"kernels/common/a.c": SPDX + "int x;\n" * 801}, "802 lines"),
    ("text", {"kernels/common/a.c": SPDX + "int x;"}, "no newline at the end"),
    ("comments", {"kernels/common/a.h": GUARDED.format("\nint hd_one(int x);\n")}, "hd_one has no comment"),
    ("times", {"tests/times.txt": "1.0 kernels/test_nothing\n"}, r"1: no time of kernels/learn/test_adam: add a line"),
    ("times", {"tests/times.txt": "1.0 kernels/test_nothing\n"}, "1: there is no test kernels/test_nothing"),
    ("docs", {"README.md": "# A b\n[a](#a-b), `kernels/common/a.h`, `scripts/go --now`\n"}, None),
    ("docs", {"README.md": "[a](docs/b.md)\n"}, "README.md:1: there is no docs/b.md"),
    ("docs", {"README.md": "# A\n[a](#b)\n"}, "README.md:2: README.md has no heading b"),
    ("docs", {"README.md": "see `kernels/common/b.h`\n"}, "README.md:1: there is no kernels/common/b.h"),
    ("docs", {"docs/howto/a.md": "\n```c\nint x;\n```\n", "tests/howto/a.c": SPDX + "int x;\n"}, None),
    ("docs", {"docs/howto/a.md": "\n```c\nint y;\n```\n", "tests/howto/a.c": SPDX + "int x;\n"},
     "a.md:2: no example has these lines"),
    ("comments", {"kernels/common/a.h": GUARDED.format("\n/* Not its. */\n\nint hd_one(int x);\n")},
     "a.h:6: hd_one has no comment"),
    ("comments", {"kernels/common/a.h": GUARDED.format("\nint hd_one(int x); /* adds one */\n")}, None),
    ("contracts", {"kernels/common/a.h": GUARDED.format("\n/* Adds one. */\nint hd_one(int x);\n")},
     "hd_one does not say which errors it returns"),
    ("contracts", {"kernels/common/a.h": GUARDED.format("\n/* Adds one. Cannot fail. */\nint hd_one(int x);\n")},
     "a.h:1: says nothing of threads"),
    ("contracts", {"kernels/common/a.c": SPDX + "/* Of one. */\nint x;\n"}, "a.c:2: begins as a fragment"),
    ("rooms", {**include("kernels/common/b.h", '"kernels/common/c.h"'), **include("kernels/common/c.h", '"kernels/common/b.h"')},
     "includes in a circle: kernels/common/b kernels/common/c"),
    ("rooms", {**include("kernels/common/b.h", '"kernels/learn/c.h"'), "kernels/learn/c.h": GUARDED.format(""),
               **include("kernels/learn/d.h", '"kernels/common/e.h"'), "kernels/common/e.h": GUARDED.format("")},
     "folders include each other in a circle: kernels/common kernels/learn"),
    ("rooms", {f"kernels/common/f{i}.c": SPDX for i in range(24)}, "26 files side by side"),
    ("rooms", {f"kernels/common/{name}.cu": SPDX + "struct one {\n    __device__ int get() const;\n};\n" for name in "ab"},
     "kernels/common/b.cu:1: kernels/common/a.cu has a type one"),
    ("rooms", {"kernels/common/a.cu": SPDX + "static __global__ void one(int *x)\n{\n    *x = 1;\n}\n"},
     "a.cu:2: this kernel does not begin with HD_AWAIT_INPUTS()"),
    ("docs", {**RELEASE, "CITATION.cff": CITATION}, None),
    ("docs", {**RELEASE, "CITATION.cff": CITATION.replace("version: 1.2.3", "version: 1.2.2")}, "version is not 1.2.3"),
    ("docs", {**RELEASE, "CITATION.cff": CITATION.replace("-05", "-06")}, "date-released is not 2026-04-05"),
    ("docs", {**RELEASE, "CITATION.cff": CITATION.replace("title", "titel")}, "CITATION.cff:1: no title"),
    ("docs", {"docs/di-engine.md": "### 3.4 Scale\n", "README.md": "See docs/di-engine.md 3.5.\n"},
     "docs/di-engine.md has no section 3.5"),
    ("format", {"kernels/common/a.c": SPDX + "int  hd_x ;\n"}, "a.c:2:4: error"),
    ("scripts", {"scripts/go": "#!/usr/bin/env bash\nset -euo pipefail\nif true\n"}, "syntax error"),
    ("scripts", {"scripts/go": "#!/usr/bin/env bash\ntrue\n"}, "no 'set -euo pipefail'"),
    ("scripts", {"scripts/a.py": "def f(:\n"}, "a.py:1: "),
]


def run(check, *arguments):
    done = subprocess.run([sys.executable, os.path.join(HERE, f"test_{check}.py"), *arguments],
                          text=True, capture_output=True)
    return done.returncode, done.stdout + done.stderr


def judge(check, code, output, wanted):
    if code == 77:
        print(f"not tried: {check}: {output.strip()}")
    elif wanted is None and code != 0 or wanted and (code != 1 or not re.search(wanted, output)):
        sys.exit(f"failed: {check} should have said {wanted!r}, but said (exit code {code}):\n{output}")


def run_in_tree(check, changed):
    with tempfile.TemporaryDirectory() as top:
        # The formatter looks for its rules above the file.
        rules = {".clang-format": tree.read(tree.ROOT, ".clang-format")}
        for path, text in {**CLEAN, **rules, **changed}.items():
            os.makedirs(os.path.dirname(os.path.join(top, path)), exist_ok=True)
            with open(os.path.join(top, path), "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(os.path.join(top, path), 0o755)
        return run(check, top)


def run_on_library(name, source):
    with tempfile.TemporaryDirectory() as top:
        library, thing = os.path.join(top, name), os.path.join(top, "a.o")
        subprocess.run([os.environ.get("CC", "cc"), "-x", "c", "-c", "-", "-o", thing], check=True,
                       input=source, text=True)
        subprocess.run(["ar", "rc", library, thing], check=True)
        return run("symbols", library)


# Folders that call each other, though no two of their files do.
CALLS = {"kernels/common/a.c": ({"hd_a"}, {"hd_c"}), "kernels/common/b.c": ({"hd_b"}, set()),
         "kernels/learn/c.c": ({"hd_c"}, set()), "kernels/learn/d.c": ({"hd_d"}, {"hd_b"})}


if __name__ == "__main__":
    found = test_links.find_circles(CALLS)
    if len(found) != 1 or "kernels/common/a -> kernels/learn/c; kernels/learn/d -> kernels/common/b" not in found[0]:
        sys.exit(f"failed: test_links found {found} in {CALLS}")
    for case, files, said in CASES:
        judge(case, *run_in_tree(case, files), said)
    needs = "int MPI_Barrier(void); int hd_a(void) { return MPI_Barrier(); }"
    judge("symbols", *run_on_library("libhd_base.a", "int hd_a;"), None)
    judge("symbols", *run_on_library("libhd_base.a", "int a;"), "a.o defines a without the prefix")
    judge("symbols", *run_on_library("libhd_tasks.a", needs), "a.o needs MPI_Barrier")
    judge("symbols", *run_on_library("libhd_runtime.a", needs), None)
