// SPDX-License-Identifier: Apache-2.0

package calcgraph_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/internal/txtar"
	"github.com/wayleave/wayleave/internal/worldtext"
	"github.com/wayleave/wayleave/policy"
)

var rewrite = flag.Bool("update", false, "rewrite the expected output in testdata")

// node is the local node of all scripts.
const node = worldtext.Node

// step is a section of updates and the expected output.
type step struct {
	updates []policy.Update
	// output is "events" or "state", or empty if nothing is compared.
	output, want string
}

// script is a parsed testdata/*.txtar: sections "update", each followed by "events" (of the flush)
// or "state" (of a mirror). Updates are in the language of internal/worldtext. The node is in sync
// from the first flush, unless a later update has the line "insync".
type script struct {
	archive txtar.Archive
	steps   []step
	// syncAt is the index of the step that ends with InSync.
	syncAt int
}

func readScript(t *testing.T, path string) *script {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	archive := txtar.Parse(data)
	require.NotEmpty(t, strings.TrimSpace(string(archive.Comment)), "%s: the first line says why the scenario exists",
		path)
	s := &script{archive: archive}
	for _, f := range archive.Files {
		body := string(f.Data)
		switch f.Name {
		case "update":
			updates, synced, err := worldtext.Parse(body)
			require.NoError(t, err, path)
			if synced {
				s.syncAt = len(s.steps)
			}
			s.steps = append(s.steps, step{updates: updates})
		case "events", "state":
			require.NotEmpty(t, s.steps, path)
			last := &s.steps[len(s.steps)-1]
			last.output, last.want = f.Name, body
		default:
			t.Fatalf("%s: unknown section %q", path, f.Name)
		}
	}
	return s
}

// pipeline is a graph and a mirror that receives its batches.
type pipeline struct {
	t      *testing.T
	graph  *calcgraph.Graph
	mirror *dptest.Mirror
}

func newPipeline(t *testing.T) *pipeline {
	t.Helper()
	graph, err := calcgraph.New(calcgraph.Config{Node: node})
	require.NoError(t, err)
	return &pipeline{t: t, graph: graph, mirror: dptest.NewMirror()}
}

func (p *pipeline) update(updates ...policy.Update) {
	for _, u := range updates {
		p.graph.Update(u)
	}
}

func (p *pipeline) flush() dataplane.Batch {
	p.t.Helper()
	batch := p.graph.Flush()
	require.NoError(p.t, p.mirror.Play(batch))
	if p.mirror.State().InSync {
		require.Empty(p.t, p.mirror.Unused(), "unused objects")
	}
	return batch
}

func (p *pipeline) state() string { return p.mirror.State().String() }

// TestScripts runs each script and compares the output of each step.
func TestScripts(t *testing.T) {
	for _, path := range scripts(t) {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			s := readScript(t, path)
			p := newPipeline(t)
			got := map[int]string{}
			for i, st := range s.steps {
				p.update(st.updates...)
				if i == s.syncAt {
					p.graph.InSync()
				}
				events := eventLines(p.flush())
				if st.output == "state" {
					got[i] = p.state()
				} else {
					got[i] = events
				}
			}
			if *rewrite {
				s.rewrite(t, path, got)
				return
			}
			for i, st := range s.steps {
				if st.output != "" {
					require.Equal(t, st.want, got[i], "step %d", i+1)
				}
			}
		})
	}
}

// TestCasesHaveScripts: if scripts can show a numbered case, a script names it. The cases are about
// selection, order and tiers, IP sets, order of events, host endpoints, services and routes. The
// expanders test S100.
func TestCasesHaveScripts(t *testing.T) {
	named := map[int]bool{100: true}
	for _, path := range scripts(t) {
		for _, m := range regexp.MustCompile(`S(\d+)(?: to S(\d+))?`).FindAllStringSubmatch(
			string(readScript(t, path).archive.Comment), -1,
		) {
			first, err := strconv.Atoi(m[1])
			require.NoError(t, err)
			last := first
			if m[2] != "" {
				last, err = strconv.Atoi(m[2])
				require.NoError(t, err)
			}
			for n := first; n <= last; n++ {
				named[n] = true
			}
		}
	}
	for _, cases := range [][2]int{{1, 20}, {34, 40}, {52, 59}, {72, 75}, {77, 102}, {158, 167}} {
		for n := cases[0]; n <= cases[1]; n++ {
			require.True(t, named[n], "S%d", n)
		}
	}
}

func scripts(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", "*.txtar"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	return paths
}

func (s *script) rewrite(t *testing.T, path string, got map[int]string) {
	t.Helper()
	step := -1
	for i := range s.archive.Files {
		f := &s.archive.Files[i]
		if f.Name == "update" {
			step++
			continue
		}
		f.Data = []byte(got[step])
	}
	require.NoError(t, os.WriteFile(path, txtar.Format(s.archive), 0o644))
}

func eventLines(b dataplane.Batch) string {
	var out strings.Builder
	for _, e := range b.Events {
		fmt.Fprintln(&out, e)
	}
	return out.String()
}
