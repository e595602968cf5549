# SPDX-License-Identifier: Apache-2.0
"""test_words.py [ROOT]: the project speaks the field's language. Words and names of its first vocabulary do not
come back, neither in code nor in configs, messages or documents (docs/concepts.md has the words in use), and
every reference to docs/di-engine.md names a section that is there."""

import re

import tree

# Spelled in pieces where a word would break this file's own rules.
WORDS = ("wi" "sh(?:es|ed)?", "he" "ed(?:s|ed|ing)?", "st" "eer(?:s|ed|ing)?", "ver" "dicts?", "stran" "gers?",
         "insi" "sts?", "decli" "nes?", "lan" "ded", "kn" "obs?")
PHRASES = ("is no " "good", "stands " "twice", "did not " "come", "dealt " "anew", "memory is " "apart",
           "side " "tasks?", "open " "task(?! )", "the same " "by name")
KEYS = ("silent_" "s", "check_" "every", "checkpoint_" "s", "(?<!_)grace_" "s", "allow_different_" "arithmetic",
        "cut_at_" "done", "collect_" "lag", "verdict_" "lag", "batch_" "slots", "slices_from_" "mb", "norm_" "state",
        "collect[.]spl" "it", "collect[.]gro" "ups", "runtime[.]win" "dow")
NAMES = ("hd_st" "ore_\\w+", "hd_wi" "sh\\w*", "hd_verd" "ict\\w*", "hd_cur" "sor\\w*", "hd_or" "der_\\w+", "hd_record" "ings?\\w*",
         "hd_exch" "ange\\w*", "hd_pie" "ces\\w*", "hd_lea" "ves\\w*", "hd_po" "ols?\\w*", "hd_ma" "rk\\b", "hd_jo" "b\\w*", "hd_ga" "ther\\w*",
         "hd_statis" "tics\\w*", "hd_ima" "ge\\w*", "hd_chu" "nks?\\w*", "hd_sho" "w\\w*", "HD_SPA" "N_\\w+", "hd_fo" "ld(?!er)\\w*", "HD_SI" "DE\\w*",
         "hd_verb_(?:st" "ore|sam" "ple|dr" "aw|gat" "her|tar" "gets|obs" "erve|mer" "ge|ke" "ep)\\b", "hd_play\\b", "hd_inb" "ox\\w*",
         "heddle_" "mpi_meet")
STEPS = ("st" "ore", "sam" "ple", "dr" "aw", "gat" "her", "tar" "gets", "obs" "erve", "mer" "ge", "ke" "ep")
TYPES = ("cur" "sor", "or" "der", "cou" "nts", "statis" "tics", "roll" "out", "recor" "ding", "tar" "gets")
ANYWHERE = re.compile(r"\b(?:%s)\b|(?:%s)" % ("|".join(WORDS), "|".join(PHRASES)), re.I)
IN_NAMES = re.compile(r"(?<![a-z])(?:%s)\b|\b(?:%s)" % ("|".join(KEYS), "|".join(NAMES)))
IN_GRAPHS = re.compile(r"(?:^|\[)\s*(?:- )?(?:%s): +\{(?:reads|writes|updates|when)|\btype: (?:%s)\b|[{ ,]pla" r"ce: (?:rank0|global)"
                       % ("|".join(STEPS), "|".join(TYPES)))
UNNAMED = re.compile(r"\bspec \d+(?:\.\d+)?\b")
SECTION = re.compile(r"docs/di-engine\.md,? (?:section )?(\d+(?:\.\d+)?)")
HEADING = re.compile(r"^#+ (\d+(?:\.\d+)?) ", re.M)
SUFFIXES = (".c", ".h", ".cu", ".cuh", ".cpp", ".hpp", ".py", ".yaml", ".md", ".txt", ".ini", ".dict", ".js", ".def")
# Records of what was measured, and the log of changes, tell of old names.
SPARED = ("bench/results/", "CHANGELOG.md", "tests/fuzz/corpus/")


def violations_in(path, text, sections):
    for number, line in enumerate(text.splitlines(), 1):
        for pattern in (ANYWHERE, IN_NAMES, IN_GRAPHS):
            if found := pattern.search(line):
                yield f"{path}:{number}: of the old vocabulary: {found[0].strip()}"
        if found := UNNAMED.search(line):
            yield f"{path}:{number}: which document? {found[0]}"
        for section in SECTION.findall(line):
            if section not in sections:
                yield f"{path}:{number}: docs/di-engine.md has no section {section}"


def main(root):
    paths = [path for path in tree.files(root, *SUFFIXES) if not path.startswith(SPARED) and path != "tests/lint/test_words.py"]
    semantics = "docs/di-engine.md"
    sections = set(HEADING.findall(tree.read(root, semantics))) if semantics in paths else set()
    tree.report([line for path in paths for line in violations_in(path, tree.read(root, path), sections)], paths)


if __name__ == "__main__":
    main(tree.root())
