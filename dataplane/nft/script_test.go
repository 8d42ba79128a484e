// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/txtar"
	"github.com/wayleave/wayleave/internal/worldgen"
	"github.com/wayleave/wayleave/internal/worldtext"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

var update = flag.Bool("update", false, "write the golden files and what the scripts expect")

// script is a parsed testdata/*.txtar: sections "update" in the language of internal/worldtext,
// each followed by what comes of it in each form, "chains" and "lookups": "FORM ruleset", the sets
// and chains that a node with nothing on it does not have or has otherwise, or "FORM delta", the
// operations that were sent to the applier. A section "interfaces" has a line "NAME KIND MASTER"
// for each port of a master, and "faults" lists the errors. The first comment says why the scenario
// exists.
type script struct {
	path    string
	archive txtar.Archive
}

func readScripts(t *testing.T) (out []script) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", "*.txtar"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		s := script{path, txtar.Parse(data)}
		require.NotEmpty(
			t, strings.TrimSpace(string(s.archive.Comment)), "%s: the first line says why the scenario exists", path,
		)
		out = append(out, s)
	}
	return out
}

func (s script) name() string { return strings.TrimSuffix(filepath.Base(s.path), ".txtar") }

// steps are the updates of each section.
func (s script) steps(t *testing.T) (out [][]policy.Update) {
	t.Helper()
	for _, f := range s.archive.Files {
		if f.Name == "update" {
			updates, _, err := worldtext.Parse(string(f.Data))
			require.NoError(t, err, s.path)
			out = append(out, updates)
		}
	}
	return out
}

// nodeWith is a node with nothing on it yet, in sync, with interfaces eth0 and eth1, and workloads'
// interfaces that begin with wl.
func nodeWith(t testing.TB, cfg render.Config) *cluster {
	t.Helper()
	c := &cluster{
		resources: verdict.World{}, config: cfg, state: ruleset.NewState(ruleset.FamilyINet, "wayleave"),
		interfaces: map[string][]netip.Addr{"eth0": ips("198.51.100.1", "fdff::1"), "eth1": ips("198.51.100.9")},
	}
	c.settings = verdict.Config{Host: cfg.Host, Interfaces: map[string]map[string][]netip.Addr{
		worldgen.Node: c.interfaces,
	}}
	var err error
	c.graph, err = calcgraph.New(calcgraph.Config{Node: worldgen.Node})
	require.NoError(t, err)
	c.graph.InSync()
	c.renderer, err = render.New(c.config)
	require.NoError(t, err)
	c.renderer.SetInterfaces(interfacesWith(c.interfaces))
	return c
}

// play gives updates to the graph and what comes of them to the renderer, and returns the operations on the table.
func (c *cluster) play(t testing.TB, updates []policy.Update) []ruleset.Op {
	t.Helper()
	for _, u := range updates {
		c.update(u)
	}
	c.renderer.Update(c.graph.Flush())
	change, err := c.state.Prepare(c.renderer.Flush())
	require.NoError(t, err)
	c.state.Commit(change)
	table, errs := c.renderer.Table()
	c.faults = messages(errs)
	require.NoError(t, table.Validate())
	require.Equal(t, table.String(), c.state.Table().String(), "the operations lead to the table")
	return change.Ops
}

// scriptNode is one for scripts. It keeps no priorities of packets, for there is a chain for each.
func scriptNode(t testing.TB, classes render.ClassesConfig) *cluster {
	classes.Priorities = []uint32{}
	return nodeWith(t, render.Config{Classes: classes, InterfacePrefix: "wl"})
}

// TestScripts plays each script and compares what comes of each step. With -update it writes that.
func TestScripts(t *testing.T) { nfttest.EachForm(t, testScripts) }

func testScripts(t *testing.T, classes render.ClassesConfig) {
	empty := scriptNode(t, classes)
	empty.play(t, nil)
	for _, s := range readScripts(t) {
		t.Run(s.name(), func(t *testing.T) {
			c := scriptNode(t, classes)
			var ops []ruleset.Op
			listed := false // the faults
			for i := range s.archive.Files {
				f := &s.archive.Files[i]
				form, what, _ := strings.Cut(f.Name, " ")
				var got string
				switch {
				case f.Name == "update":
					updates, _, err := worldtext.Parse(string(f.Data))
					require.NoError(t, err)
					ops = c.play(t, updates)
					continue
				case f.Name == "interfaces":
					c.renderer.SetInterfaces(portsOf(string(f.Data)))
					ops = c.play(t, nil)
					continue
				case f.Name == "faults":
					got = strings.Join(append(c.faults, ""), "\n")
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
					got = besides(empty.state.Table(), c.state.Table())
				default:
					t.Fatalf("unknown section %q", f.Name)
				}
				if *update {
					f.Data = []byte(got)
				}
				require.Equal(t, string(f.Data), got, "section %d", i+1)
			}
			require.True(t, listed || len(c.faults) == 0, "%v", c.faults)
			if *update {
				require.NoError(t, os.WriteFile(s.path, txtar.Format(s.archive), 0o644))
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

// besides returns the sets and chains of a table that another has not, or has otherwise.
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
	for _, s := range readScripts(t) {
		t.Run(s.name(), func(t *testing.T) {
			straight := scriptNode(t, classes)
			for _, updates := range s.steps(t) {
				straight.play(t, updates)
			}
			want := straight.state.Table().String()
			all := worldtext.Latest(slices.Concat(s.steps(t)...))
			for _, order := range [][]policy.Update{all, worldtext.Reversed(all)} {
				squashed, singly := scriptNode(t, classes), scriptNode(t, classes)
				squashed.play(t, order)
				require.Equal(t, want, squashed.state.Table().String())
				for _, u := range order {
					singly.play(t, []policy.Update{u})
				}
				require.Equal(t, want, singly.state.Table().String())
			}
		})
	}
}

// TestScriptsTornDown: when what a script has made goes one by one, nothing of it is left.
func TestScriptsTornDown(t *testing.T) { nfttest.EachFormInParallel(t, testScriptsTornDown) }

func testScriptsTornDown(t *testing.T, classes render.ClassesConfig) {
	empty := scriptNode(t, classes)
	empty.play(t, nil)
	for _, s := range readScripts(t) {
		t.Run(s.name(), func(t *testing.T) {
			all := slices.Concat(s.steps(t)...)
			gone := worldtext.Deletions(all)
			byKind := slices.Clone(gone)
			slices.SortStableFunc(byKind, func(a, b policy.Update) int { return a.Key.Compare(b.Key) })
			for _, order := range [][]policy.Update{
				gone, worldtext.Reversed(gone), byKind, worldtext.Reversed(byKind),
			} {
				c := scriptNode(t, classes)
				for _, updates := range s.steps(t) {
					c.play(t, updates)
				}
				for _, u := range order {
					c.play(t, []policy.Update{u})
				}
				require.Equal(t, empty.state.Table().String(), c.state.Table().String())
			}
		})
	}
}
