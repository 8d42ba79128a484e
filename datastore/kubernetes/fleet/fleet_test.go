// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/datastore/kubernetes/internal/apiserver"
)

// TestMain makes the test program a worker if it is started as one.
func TestMain(m *testing.M) {
	if os.Getenv(workerMode) != "" {
		work()
		return
	}
	os.Exit(m.Run())
}

// testFleet starts a small fleet that ends with the test.
func testFleet(t *testing.T, backend string) *fleet {
	t.Helper()
	cfg := smallConfig()
	cfg.Rate, cfg.Churn, cfg.Idle, cfg.Timeout = 10, 2*time.Second, time.Second, time.Minute
	f, err := newFleet(t, cfg, backend, t.Logf)
	require.NoError(t, err)
	return f
}

// run runs a scenario.
func (f *fleet) run(t *testing.T, name string) *measurement {
	t.Helper()
	for _, s := range scenarios() {
		if s.name == name {
			m, err := f.measure(t.Context(), s)
			require.NoError(t, err)
			t.Log(m)
			return m
		}
	}
	require.FailNow(t, "no scenario "+name)
	return nil
}

// requireVerified compares the states of all nodes with fresh graphs.
func (f *fleet) requireVerified(t *testing.T, after string) {
	t.Helper()
	require.Eventually(t, func() bool { // the last deletions of churn change no set of the tracker
		verified, err := f.verify(t.Context(), f.cfg.Nodes)
		return err == nil && verified == f.cfg.Nodes
	}, 10*time.Second, 50*time.Millisecond, "after %s", after)
}

// Every change reaches every node as one event, and the states are equal to the states of fresh
// graphs. This also holds after the server was killed, and after all nodes have restarted.
func TestEveryChangeReachesEveryNode(t *testing.T) {
	for _, name := range backends() {
		t.Run(name, func(t *testing.T) {
			f := testFleet(t, name)
			started := f.run(t, "start")
			require.Len(t, started.Latencies, f.cfg.Nodes)
			f.requireVerified(t, "start")
			for _, change := range []string{"label", "policy", "namespace", "label", "namespace"} {
				m := f.run(t, change)
				require.Equal(t, 1, m.Changes)
				require.Len(t, m.Latencies, f.cfg.Nodes)
				require.Equal(t, int64(f.cfg.Nodes), m.Kinds[kindOfChange(name, change)].Events, change)
				for _, c := range m.Nodes {
					require.Positive(t, c.Events)
					require.GreaterOrEqual(t, c.Received, c.EventBytes)
				}
				require.Positive(t, m.First[0])
				f.requireVerified(t, change)
			}
			churned := f.run(t, "churn")
			require.Equal(t, 20, churned.Changes)
			require.Len(t, churned.Latencies, 20, "every pod was seen by all nodes")
			for _, c := range churned.Nodes {
				require.GreaterOrEqual(t, c.Events, int64(2*20+1), "each pod is added and deleted, and the last change")
			}
			f.requireVerified(t, "churn")
			for range 2 {
				m := f.run(t, "reconnect")
				require.Len(t, m.Latencies, f.cfg.Nodes)
				for _, c := range m.Nodes {
					require.Positive(t, c.Dials, "the node has connected again")
				}
				f.requireVerified(t, "reconnect")
			}
			restarted := f.run(t, "restart")
			require.Len(t, restarted.Latencies, f.cfg.Nodes)
			require.Positive(t, restarted.Used[nodesName].RSS)
			f.requireVerified(t, "restart")
		})
	}
}

// kindOfChange returns the kind whose watches have the events of a scenario.
func kindOfChange(backend, scenario string) string {
	if backend != backendKubernetes {
		return "watch"
	}
	return map[string]string{
		"label": "pods", "policy": "networkpolicies.networking.k8s.io", "namespace": "namespaces",
	}[scenario]
}

// verify reports a state that differs from the world.
func TestVerifyReportsDifference(t *testing.T) {
	f := testFleet(t, backendEtcd)
	f.run(t, "start")
	f.requireVerified(t, "start")
	toggle(f.world.target.Labels) // without a write
	_, err := f.verify(t.Context(), f.cfg.Nodes)
	require.ErrorContains(t, err, "differs from a fresh graph's")
}

// The command prints its tables. If it is interrupted, no process and no folder remains.
func TestInterruptedCommandRemovesProcessesAndFolder(t *testing.T) {
	apiserver.StartEtcd(t) // which skips without the programs
	before := children(t)
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	args := strings.Fields("--nodes 5 --pods-per-node 4 --policies 3 --backend etcd --repeat 1 --scenario ")
	var out, progress strings.Builder
	require.Zero(t, command(t.Context(), append(args, "label,restart"), &out, &progress), "%s", &progress)
	require.Contains(t, out.String(), "| etcd | label | 1 | 1.00 |")
	require.Contains(t, out.String(), "| etcd | restart |")
	require.Contains(t, out.String(), "5 states of nodes equal")
	requireNothingLeft(t, folder, before)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	interrupt := &trigger{text: "start took", f: cancel}
	require.Equal(t, 1, command(ctx, append(args, "idle"), &out, interrupt))
	require.Contains(t, interrupt.String(), context.Canceled.Error())
	requireNothingLeft(t, folder, before)
}

func requireNothingLeft(t *testing.T, folder string, before []string) {
	t.Helper()
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, left)
	require.Equal(t, before, children(t))
}

// children returns the children of this process.
func children(t *testing.T) (list []string) {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	require.NoError(t, err)
	for _, task := range tasks {
		text, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%s/children", task.Name()))
		if err == nil { // a thread may have ended
			list = append(list, strings.Fields(string(text))...)
		}
	}
	return list
}

// trigger is a text that calls a function once it contains another.
type trigger struct {
	strings.Builder
	mu   sync.Mutex
	text string
	f    func()
}

func (w *trigger) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.Builder.Write(p)
	if strings.Contains(w.String(), w.text) {
		w.f()
	}
	return n, err
}
