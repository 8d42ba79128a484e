// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/txtar"
	"github.com/wayleave/wayleave/internal/worldtext"
	"github.com/wayleave/wayleave/policy"
)

var update = flag.Bool("update", false, "write the golden files and the expected results of the scripts")

// TestScripts plays each script and compares the result of each step. With -update, it writes the
// results.
func TestScripts(t *testing.T) { nfttest.EachForm(t, testScripts) }

func testScripts(t *testing.T, classes render.ClassesConfig) {
	empty := nfttest.NewScriptNode(t, classes)
	empty.Play(t, nil)
	for _, s := range nfttest.ReadScripts(t, "testdata") {
		t.Run(s.Name(), func(t *testing.T) {
			c := nfttest.NewScriptNode(t, classes)
			var ops []ruleset.Op
			listed := false // the faults
			for i := range s.Archive.Files {
				f := &s.Archive.Files[i]
				form, what, _ := strings.Cut(f.Name, " ")
				var got string
				switch {
				case f.Name == "update":
					updates, _, err := worldtext.Parse(string(f.Data))
					require.NoError(t, err)
					ops = c.Play(t, updates)
					continue
				case f.Name == "interfaces":
					c.Renderer.SetInterfaces(portsOf(string(f.Data)))
					ops = c.Play(t, nil)
					continue
				case f.Name == "faults":
					got = strings.Join(append(c.Faults, ""), "\n")
					listed = true
				case form != "chains" && form != "lookups":
					t.Fatalf("unknown section %q", f.Name)
				case form != nfttest.FormName(classes):
					continue
				case what == "delta":
					for _, op := range ops {
						got += op.String() + "\n"
					}
				case what == "ruleset":
					got = besides(empty.State.Table(), c.State.Table())
				default:
					t.Fatalf("unknown section %q", f.Name)
				}
				if *update {
					f.Data = []byte(got)
				}
				require.Equal(t, string(f.Data), got, "section %d", i+1)
			}
			require.True(t, listed || len(c.Faults) == 0, "%v", c.Faults)
			if *update {
				require.NoError(t, os.WriteFile(s.Path, txtar.Format(s.Archive), 0o644))
			}
		})
	}
}

// portsOf returns the interfaces of a section.
func portsOf(text string) map[string]render.Interface {
	known := map[string]render.Interface{}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 3 {
			known[f[0]] = render.Interface{Master: render.Master{Kind: f[1], Name: f[2]}}
		}
	}
	return known
}

// besides returns the sets and chains of a table that are missing or different in another.
func besides(other, table *ruleset.Table) string {
	parts := func(t *ruleset.Table) []string {
		body := strings.TrimSuffix(t.String(), "}\n")
		_, body, _ = strings.Cut(body, "{\n")
		return strings.Split(strings.TrimSuffix(body, "\n"), "\n\n")
	}
	there := parts(other)
	differ := slices.DeleteFunc(parts(table), func(p string) bool { return slices.Contains(there, p) })
	if len(differ) == 0 {
		return ""
	}
	return strings.Join(differ, "\n\n") + "\n"
}

// TestScriptsSquashed (S100): all steps of a script at once, and in many orders one by one, lead to
// the table of its last step.
func TestScriptsSquashed(t *testing.T) { nfttest.EachForm(t, testScriptsSquashed) }

func testScriptsSquashed(t *testing.T, classes render.ClassesConfig) {
	for _, s := range nfttest.ReadScripts(t, "testdata") {
		t.Run(s.Name(), func(t *testing.T) {
			straight := nfttest.NewScriptNode(t, classes)
			for _, updates := range s.Steps(t) {
				straight.Play(t, updates)
			}
			want := straight.State.Table().String()
			all := worldtext.Latest(slices.Concat(s.Steps(t)...))
			for _, order := range [][]policy.Update{all, worldtext.Reversed(all)} {
				squashed, singly := nfttest.NewScriptNode(t, classes), nfttest.NewScriptNode(t, classes)
				squashed.Play(t, order)
				require.Equal(t, want, squashed.State.Table().String())
				for _, u := range order {
					singly.Play(t, []policy.Update{u})
				}
				require.Equal(t, want, singly.State.Table().String())
			}
		})
	}
}

// TestScriptsTornDown: when the objects of a script are removed one by one, the table is empty in
// the end.
func TestScriptsTornDown(t *testing.T) { nfttest.EachFormInParallel(t, testScriptsTornDown) }

func testScriptsTornDown(t *testing.T, classes render.ClassesConfig) {
	empty := nfttest.NewScriptNode(t, classes)
	empty.Play(t, nil)
	for _, s := range nfttest.ReadScripts(t, "testdata") {
		t.Run(s.Name(), func(t *testing.T) {
			all := slices.Concat(s.Steps(t)...)
			gone := worldtext.Deletions(all)
			byKind := slices.Clone(gone)
			slices.SortStableFunc(byKind, func(a, b policy.Update) int { return a.Key.Compare(b.Key) })
			for _, order := range [][]policy.Update{
				gone, worldtext.Reversed(gone), byKind, worldtext.Reversed(byKind),
			} {
				c := nfttest.NewScriptNode(t, classes)
				for _, updates := range s.Steps(t) {
					c.Play(t, updates)
				}
				for _, u := range order {
					c.Play(t, []policy.Update{u})
				}
				require.Equal(t, empty.State.Table().String(), c.State.Table().String())
			}
		})
	}
}
