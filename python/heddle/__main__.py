# SPDX-License-Identifier: Apache-2.0
import sys

from heddle.commands import main

sys.exit(main())
