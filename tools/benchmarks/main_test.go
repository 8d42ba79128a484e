// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// catalogue has a section whose command reads its results from a file, and a chart of it.
const catalogue = `
intro: |
  Read this first.
sections:
- name: load
  title: Load & start
  commands:
  - cat output
  peer: {title: Felix, prefix: Felix/}
  tables:
  - title: what
    columns:
    - {title: lookups, bench: /form=lookups, unit: ns/op}
    - {title: chains, bench: /form=chains, unit: ns/op}
    - {title: allocs, bench: /form=lookups, unit: allocs/op}
    rows:
    - {text: 'one', bench: 'Load/n=1/cost=*', base: 'Base', target: 2 ns}
performance:
  charts:
  - name: load
    title: Load <1>
    text: |
      It shows the load.
    section: load
    columns:
    - {title: lookups, bench: /form=lookups, unit: ns/op}
    rows:
    - {text: 'one & only', bench: 'Load/n=1/cost=*'}
`

const output = `BenchmarkBase-2 1 2 ns/op
BenchmarkLoad/n=1/cost=7/form=lookups-2 1 4 ns/op 8 allocs/op
BenchmarkLoad/n=1/cost=7/form=lookups-2 1 6 ns/op
BenchmarkLoad/n=1/cost=7/form=lookups-2 1 5 ns/op
BenchmarkLoad/n=1/cost=7/form=chains-2 1 40 ns/op
` + felix

// felix is the result of the peer.
const felix = `BenchmarkFelix/Load/n=1/cost=7/form=lookups-2 1 50 ns/op 9 allocs/op
BenchmarkFelix/Load/n=1/cost=7/form=chains-2 1 60 ns/op
`

// repository makes a git repository with a catalogue and results of benchmarks, and returns its
// folder.
func repository(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"docs/benchmarks/catalogue.yaml": catalogue, "docs/pictures/bench-old.svg": "", "docs/pictures/flush.svg": "",
		"output": output, "go.mod": "module example.com/x\n",
	} {
		write(t, filepath.Join(root, name), text)
	}
	for _, args := range [][]string{
		{"init", "-q"},
		{"add", "-A"},
		{"-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "-q", "-m", "test"},
	} {
		cmd := exec.Command("git", args...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	return root
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// call runs the program, and returns what it prints and its error.
func call(root string, args ...string) (string, error) {
	var out bytes.Buffer
	err := run(append([]string{"-root", root}, args...), &out, &out)
	return out.String(), err
}

func require(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in:\n%s", part, text)
		}
	}
}

func TestPagesOfUnrecordedSections(t *testing.T) {
	root := repository(t)
	if _, err := call(root, "page"); err != nil {
		t.Fatal(err)
	}
	require(t, read(t, filepath.Join(root, "docs/benchmarks.md")),
		"Read this first.", "## Load & start", "```sh no-test\ncat output\n```", "**Not recorded yet.**",
		"| one | – | – | – | 2 ns |")
	require(t, read(t, filepath.Join(root, "docs/performance.md")),
		"## Not recorded yet", "Load <1>", "(benchmarks.md#load--start)")
	charts, err := filepath.Glob(filepath.Join(root, "docs/pictures/*.svg"))
	if err != nil || len(charts) != 1 {
		t.Errorf("the old chart is still there, or another picture is not: %v, %v", charts, err)
	}
}

func TestRecordedSectionIsOnThePages(t *testing.T) {
	root := repository(t)
	for range 2 { // the results and pages of the first do not make the tree dirty
		if _, err := call(root, "record", "load"); err != nil {
			t.Fatal(err)
		}
	}
	page := read(t, filepath.Join(root, "docs/benchmarks.md"))
	// The minimum misses its target, and is twice that of the base.
	require(t, page, "| what | lookups | chains | allocs | target | Felix: lookups | Felix: allocs |",
		"| one | **4.00 / 5.00 ns** (2.00x) | 40.0 ns (20.00x) | 8 | 2 ns | 50.0 ns | 9 |", "Recorded on ")
	if strings.Contains(page, "-dirty") {
		t.Error("the tree had no changes")
	}
	require(t, read(t, filepath.Join(root, "docs/performance.md")),
		"## Load <1>", "![one & only: lookups 4.00 ns (target 2 ns), Felix 50.0 ns.](pictures/bench-load.svg)",
		"Details: [Load & start](benchmarks.md#load--start).\n")
	require(t, read(t, filepath.Join(root, "docs/pictures/bench-load.svg")),
		`<title id="title">Load &lt;1&gt;</title>`, "one &amp; only", "prefers-color-scheme:dark",
		`<rect class="peer" x="110" y="117.0" width="500.0"`, // the longest
		`<rect class="s0" x="110" y="91.0" width="40.0"`, ">target 2 ns</text>")
	list, err := call(root, "list")
	if err != nil || strings.Contains(list, "not recorded") {
		t.Errorf("list: %v: %s", err, list)
	}
}

// TestMissedRatiosAreBold has targets for a column of ratios and for the ratio to the base. The
// second column has a ratio to the base without a target.
func TestMissedRatiosAreBold(t *testing.T) {
	const table = `- title: what
    columns:
    - {title: time, bench: /a, unit: ns/op}
    - {title: other, bench: /b, unit: ns/op}
    - {title: ratio, bench: /a, unit: x-raw}
    rows:
    - {text: slow, bench: Slow, target: 1.25 times raw}
    - {text: fast, bench: Fast, target: 1.25 times raw}
    - {text: above base, bench: Above, base: Base, target: 1.25x}
    - {text: near base, bench: Near, base: Base, target: 1.25x}
performance: {}
`
	const output = `BenchmarkBase-2 1 10 ns/op
BenchmarkSlow/a-2 1 13 ns/op 1.3 x-raw
BenchmarkFast/a-2 1 12 ns/op 1.2 x-raw
BenchmarkAbove/a-2 1 13 ns/op
BenchmarkAbove/b-2 1 90 ns/op
BenchmarkNear/a-2 1 12 ns/op
BenchmarkFelix/Slow/a-2 1 13 ns/op
`
	root := repository(t)
	write(t, filepath.Join(root, "docs/benchmarks/catalogue.yaml"),
		catalogue[:strings.Index(catalogue, "- title: what")]+table)
	write(t, filepath.Join(root, "output"), output)
	if _, err := call(root, "record", "load"); err != nil {
		t.Fatal(err)
	}
	require(t, read(t, filepath.Join(root, "docs/benchmarks.md")),
		"| slow | 13.0 ns | | **1.30x** | 1.25 times raw | 13.0 ns |",
		"| fast | 12.0 ns | | 1.20x | 1.25 times raw | |",
		"| above base | 13.0 ns **(1.30x)** | 90.0 ns (9.00x) | | 1.25x | |",
		"| near base | 12.0 ns (1.20x) | | | 1.25x | |")
}

// TestPageHasTheRecordedCommands changes the catalogue after the recording.
func TestPageHasTheRecordedCommands(t *testing.T) {
	root := repository(t)
	if _, err := call(root, "record", "load"); err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(catalogue, "cat output", "cat ./output", 1)
	write(t, filepath.Join(root, "docs/benchmarks/catalogue.yaml"), changed)
	if _, err := call(root, "page"); err != nil {
		t.Fatal(err)
	}
	require(t, read(t, filepath.Join(root, "docs/benchmarks.md")), "```sh no-test\ncat output\n```")
}

// TestPeerWithoutFigures records a section without results of the peer.
func TestPeerWithoutFigures(t *testing.T) {
	root := repository(t)
	write(t, filepath.Join(root, "output"), strings.TrimSuffix(output, felix))
	_, err := call(root, "record", "load")
	if err == nil || !strings.Contains(err.Error(), "no result for the row of Felix/") {
		t.Errorf("error %v", err)
	}
	require(t, read(t, filepath.Join(root, "docs/benchmarks.md")), "| what | lookups | chains | allocs | target |\n")
	require(t, read(t, filepath.Join(root, "docs/performance.md")), "lookups 4.00 ns (target 2 ns).]")
}

// TestQuickRunsEachBenchmarkOnce has a loop and a command that runs no benchmark of Go.
func TestQuickRunsEachBenchmarkOnce(t *testing.T) {
	got := once("for i in 1 2 3; do\n  go test ./x -count 6\n  cat y\ndone")
	if want := "for i in 1; do\n  go test ./x -count 6 -benchtime 1x -count 1\n  cat y\ndone"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRecordingOfAChangedTreeIsDirty(t *testing.T) {
	root := repository(t)
	write(t, filepath.Join(root, "main.go"), "package main\n")
	if _, err := call(root, "record", "load"); err != nil {
		t.Fatal(err)
	}
	require(t, read(t, filepath.Join(root, resultsFile)), `-dirty"`)
}

// TestCheckFindsEditedPages edits a page, a chart and the results, and leaves a chart behind.
func TestCheckFindsEditedPages(t *testing.T) {
	for _, file := range []string{
		"docs/benchmarks.md", "docs/performance.md", "docs/pictures/bench-load.svg", "docs/pictures/bench-left.svg",
	} {
		root := repository(t)
		if _, err := call(root, "record", "load"); err != nil {
			t.Fatal(err)
		}
		if _, err := call(root, "page", "-check"); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(root, file), "edited by hand\n")
		if _, err := call(root, "page", "-check"); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", file, err)
		}
		if got := read(t, filepath.Join(root, file)); got != "edited by hand\n" {
			t.Errorf("-check wrote %s", file)
		}
	}
}

// TestSectionOnAnotherPage has a section whose tables are on a page with other words.
func TestSectionOnAnotherPage(t *testing.T) {
	const section = `- name: other
  page: docs/other.md
  commands: [cat output]
  tables:
  - title: what
    rows:
    - {text: base, bench: Base}
performance:`
	root := repository(t)
	page := filepath.Join(root, "docs/other.md")
	write(t, filepath.Join(root, "docs/benchmarks/catalogue.yaml"),
		strings.Replace(catalogue, "performance:", section, 1))
	for _, tt := range []struct{ blocks, want string }{
		{"", `docs/other.md has no <!-- bench other --> block`},
		{"<!-- bench other -->\n", `docs/other.md has no <!-- bench other --> block`},
		{"<!-- bench other -->\n<!-- /bench -->\n<!-- bench old -->\n", `docs/other.md: a <!-- bench NAME --> or`},
		{"<!-- bench load -->\n<!-- /bench -->\n", `docs/other.md: no section for the block "load"`},
		{strings.Repeat("<!-- bench other -->\n<!-- /bench -->\n", 2), `for the block "other", or two blocks`},
	} {
		write(t, page, tt.blocks)
		if _, err := call(root, "page"); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: error %v, want %q", tt.blocks, err, tt.want)
		}
	}
	write(t, page, "Words.\n\n<!-- bench other -->\nold\n<!-- /bench -->\n\nMore words.\n")
	if _, err := call(root, "page"); err != nil {
		t.Fatal(err)
	}
	if want := "Words.\n\n<!-- bench other -->\n\n**Not recorded yet.**\n" +
		"Command: `make bench-record SECTION=other`.\n\n" +
		"| what | min / median | allocs |\n|---|---|---|\n| base | – | – |\n\n" +
		"<!-- /bench -->\n\nMore words.\n"; read(t, page) != want {
		t.Errorf("got %q, want %q", read(t, page), want)
	}
	if _, err := call(root, "record", "other"); err != nil {
		t.Fatal(err)
	}
	require(t, read(t, page), "Words.", "Recorded on ", "| base | 2.00 ns | |", "More words.")
	if strings.Contains(read(t, filepath.Join(root, "docs/benchmarks.md")), "base") {
		t.Error("the section is on docs/benchmarks.md, too")
	}
	write(t, page, strings.Replace(read(t, page), "More words", "Other words", 1))
	if _, err := call(root, "page", "-check"); err != nil {
		t.Errorf("words outside of the block changed: %v", err)
	}
	write(t, page, strings.Replace(read(t, page), "2.00 ns", "1.00 ns", 1))
	if _, err := call(root, "page", "-check"); err == nil || !strings.Contains(err.Error(), "docs/other.md differs") {
		t.Errorf("a figure changed: %v", err)
	}
}

// TestRowsWithoutResultsAreErrors records a section without results. The section is saved, because
// another run could take long, and its cells are empty.
func TestRowsWithoutResultsAreErrors(t *testing.T) {
	root := repository(t)
	write(t, filepath.Join(root, "output"), "BenchmarkOther-2 1 2 ns/op\n")
	for _, args := range [][]string{{"record", "-n", "load"}, {"record", "load"}, {"page"}, {"page", "-check"}} {
		if _, err := call(root, args...); err == nil || !strings.Contains(err.Error(), "the row of Load/n=1/cost=*") {
			t.Errorf("%v: %v", args, err)
		}
	}
	require(t, read(t, filepath.Join(root, "docs/benchmarks.md")), "| one | | | | 2 ns |")
	require(t, read(t, filepath.Join(root, "docs/performance.md")), "## Not recorded yet", "Load <1>")
}

// TestFailedAndDryRunsAreNotSaved records a section whose command fails or prints no result, and
// makes a dry run.
func TestFailedAndDryRunsAreNotSaved(t *testing.T) {
	for name, tt := range map[string]struct {
		args       []string
		file, text string
		want       string // of the error; without one, the section is printed
	}{
		"no result":       {args: []string{"load"}, file: "output", text: "PASS\n", want: "no result of a benchmark"},
		"command fails":   {args: []string{"load"}, file: "docs/benchmarks/catalogue.yaml", want: "No such file"},
		"dry":             {args: []string{"-n", "load"}},
		"quick":           {args: []string{"-quick", "load"}},
		"unknown section": {args: []string{"load", "nothing"}, want: `no section "nothing"; there are load`},
		"no section":      {args: []string{}, want: "there are load"},
	} {
		t.Run(name, func(t *testing.T) {
			root := repository(t)
			if tt.text == "" {
				tt.text = strings.Replace(catalogue, "cat output", "cat missing; cat output", 1)
			}
			if tt.file != "" {
				write(t, filepath.Join(root, tt.file), tt.text)
			}
			out, err := call(root, append([]string{"record"}, tt.args...)...)
			if tt.want == "" {
				require(t, out, "## Load & start", "**4.00 / 5.00 ns**")
				if err != nil {
					t.Error(err)
				}
			} else if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if _, err := os.Stat(filepath.Join(root, resultsFile)); err == nil {
				t.Error("the results were saved")
			}
		})
	}
}

func TestMalformedCatalogue(t *testing.T) {
	for _, tt := range []struct{ old, new, want string }{
		{"  title: Load & start", "  headline: Load", "headline"},
		{"  commands:\n  - cat output\n", "", "commands are missing"},
		{"    section: load", "    section: none", `no section "none"`},
		{"  title: Load", "  page: docs/page.md\n  title: Load", "belong in docs/page.md"},
		{"  title: Load & start", "  page: docs/page.md", `no section "load" of docs/benchmarks.md`},
		{"text: 'one', ", "", "no text"},
	} {
		root := repository(t)
		text := strings.Replace(catalogue, tt.old, tt.new, 1)
		if text == catalogue {
			t.Fatalf("no %q in the catalogue", tt.old)
		}
		write(t, filepath.Join(root, "docs/benchmarks/catalogue.yaml"), text)
		if _, err := call(root, "page"); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("error %v, want %q", err, tt.want)
		}
	}
}

func TestUsage(t *testing.T) {
	if out, err := call(".", "--help"); !strings.Contains(out, "record [-n]") || err == nil {
		t.Errorf("%v: %s", err, out)
	}
	for _, args := range [][]string{{}, {"plot"}} {
		if _, err := call(".", args...); err == nil || !strings.Contains(err.Error(), "list, record or page") {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// TestLogarithmicAxis has equal distances for equal ratios.
func TestLogarithmicAxis(t *testing.T) {
	a := newAxis([]group{{bars: []bar{{value: 20}, {value: 3000, target: 100}}}}, true)
	if a.low != 10 || a.high != 10_000 {
		t.Errorf("from %v to %v", a.low, a.high)
	}
	if x := a.x(10); x != barLeft {
		t.Errorf("10 is at %v", x)
	}
	if one, three := a.x(100)-a.x(10), a.x(10_000)-a.x(10); three < 2.99*one || three > 3.01*one {
		t.Errorf("a power of ten is %v wide, three are %v", one, three)
	}
}

// TestCommittedPages checks that the pages of this repository are those of its catalogue and
// results.
func TestCommittedPages(t *testing.T) {
	if _, err := call("../..", "page", "-check"); err != nil {
		t.Error(err)
	}
}

func TestLongLinesAreBroken(t *testing.T) {
	long := strings.Repeat("µ", columns-2)
	for text, want := range map[string]string{
		"":                            "",
		"a b\nc d":                    "a b\nc d",
		"a " + long + "\n":            "a " + long + "\n",
		"a b " + long + " c\nd e":     "a b\n" + long + " c\nd e",
		long + "µµ a\n" + long + " b": long + "µµ\na\n" + long + " b",
	} {
		if got := breakLines(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
