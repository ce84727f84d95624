"""The source tree keeps its own rules: layers, folder READMEs, no leftovers, documented proto changes."""

import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SRC = ROOT / "src"


def tracked(*patterns):
    listed = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "-co", "--exclude-standard", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).exists()]


def layers():
    rules = {}
    for line in (ROOT / "docs" / "layers.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            folder, allowed = line.split(":", 1)
            rules[folder] = allowed.split()
    return rules


def within(path, folder):
    return path == folder or path.startswith(folder + "/")


class Tidy(unittest.TestCase):
    def test_includes_follow_the_layers(self):
        rules = layers()
        wrong = []
        for file in tracked("src/*.h", "src/*.cc"):
            if file.name.endswith("_test.cc"):
                continue
            folder = str(file.parent.relative_to(SRC))
            rule = max((r for r in rules if within(folder, r)), key=len, default=None)
            self.assertIsNotNone(rule, f"{folder} has no line in docs/layers.txt")
            for include in re.findall(r'^#include "([^"]+)"', file.read_text(), re.M):
                target = str(pathlib.PurePosixPath(include).parent)
                if not (SRC / include).exists():
                    continue  # generated
                if not any(within(target, allowed) for allowed in [rule, *rules[rule]]):
                    wrong.append(f"{file.relative_to(ROOT)} includes {include}")
        self.assertEqual(wrong, [])

    def test_folders_say_what_they_are(self):
        folders = {file.parent for file in tracked("src/*.cc")}
        missing = [str(f.relative_to(ROOT)) for f in folders if not (f / "README.md").exists()]
        self.assertEqual(sorted(missing), [])

    def test_headers_are_included_once_and_sources_are_built(self):
        built = "\n".join(file.read_text() for file in tracked("*CMakeLists.txt"))
        for file in tracked("src/*.h", "cli/*.h"):
            self.assertIn("#pragma once", file.read_text(), file)
        sources = [str(file.relative_to(ROOT)) for file in tracked("src/*.cc", "cli/*.cc", "plugins/*.cc")]
        named = set(re.findall(r"[\w/]+\.cc", built)) | {f"{n}{end}" for n in re.findall(r"\w+", built) for end in (".cc", "_test.cc")}
        self.assertEqual([source for source in sources if pathlib.PurePath(source).name not in named], [])

    def test_headers_are_readable_at_a_glance(self):
        """Place, Threads, Lifetime, Errors and Invariants begin a line; what follows hangs under them."""
        word = r"(?:Place|Threads|Lifetime|Errors|Invariants):"
        wrong = []
        for file in tracked("src/*.h", "cli/*.h", "plugins/*.h"):
            section = False
            for n, line in enumerate(file.read_text().splitlines(), 1):
                if not line.startswith("//") or line == "//":
                    section = False
                elif re.match(rf"// (?:{word}|Facts:|Rules:)", line):
                    section = True
                elif re.search(rf"\S {word} ", line) or (section and re.match(r"// \S", line)):
                    wrong.append(f"{file.relative_to(ROOT)}:{n}")
        self.assertEqual(wrong, [])

    def test_no_leftovers(self):
        marker = re.compile(r"\b(TO" + r"DO(?!\(#\d)|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")
        found = [f"{file.relative_to(ROOT)}:{n}" for file in tracked("*.cc", "*.h", "*.py", "*.sh", "*.proto")
                 for n, line in enumerate(file.read_text().splitlines(), 1) if marker.search(line)]
        self.assertEqual(found, [])

    def test_banned_calls_have_replacements(self):
        banned = {r"\bstd::mutex\b": "base/mutex.h", r"\bstd::cout\b|\bstd::cerr\b": "base/log.h", r"\bassert\(": "base/check.h",
                  r"\bsleep_for\b(?!.*// waits for)": "a condition with a deadline"}
        found = []
        for file in tracked("src/*.cc", "src/*.h"):
            name = str(file.relative_to(ROOT))
            if name.startswith("src/base/") or name.endswith("_test.cc"):
                continue
            for pattern, instead in banned.items():
                if re.search(pattern, file.read_text()):
                    found.append(f"{name}: use {instead}")
        self.assertEqual(found, [])

    def test_every_proto_is_in_the_version_file(self):
        versions = (ROOT / "proto" / "VERSION.md").read_text()
        for file in tracked("proto/*.proto"):
            self.assertIn(str(file.relative_to(ROOT / "proto")), versions)

    def test_the_root_holds_what_it_should(self):
        """A fuzzer leaves its inputs where it was started, an editor its copies."""
        known = {".clang-format", ".gitignore", "CMakeLists.txt", "LICENSE", "Makefile", "NOTICES.md", "README.md", "SECURITY.md"}
        self.assertEqual({file.name for file in tracked() if file.parent == ROOT} - known, set())

    def test_no_paths_of_a_machine(self):
        path = re.compile(r"(?<![\w.])/(?:work|root|home)/")
        for file in tracked():
            if file.suffix in {".cc", ".h", ".py", ".md", ".sh", ".txt", ".proto"} and file != pathlib.Path(__file__):
                self.assertIsNone(path.search(file.read_text()), file)


if __name__ == "__main__":
    unittest.main()
