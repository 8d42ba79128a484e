// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// scenario is a change, or a series of changes, of the cluster.
type scenario struct {
	name, what string
	// repeat means that it runs config.Repeat times.
	repeat bool
	run    func(ctx context.Context, f *fleet, m *measurement) error
}

// scenarios returns all scenarios, in the order of a full run.
func scenarios() []scenario {
	return []scenario{
		{"start", "all nodes start at once, after the objects were written", false, start},
		{"idle", "nothing changes for --idle", false, idle},
		{"label", "a label of one pod changes, and a set of every node gets or loses the pod", true, label},
		{"policy", "the port of a policy of all nodes changes", true, editPolicy},
		{"namespace", "a namespace of 50 pods is relabelled", true, relabel},
		{"churn", "--rate pods a second are created, and deleted after 10 s, for --churn", false, churn},
		{"reconnect", "the server is killed and starts again: all nodes reconnect", false, reconnect},
		{"restart", "all nodes restart at once with empty state", false, restart},
	}
}

func scenarioNames() (names []string) {
	for _, s := range scenarios() {
		names = append(names, s.name)
	}
	return names
}

// measurement is the result of a run of a scenario.
type measurement struct {
	Backend, Scenario string
	// Latencies are the times from the start of a change until a node had it. With one change,
	// there is one for each node. With several changes, there is one for each change: the time
	// until the last node had it.
	Latencies []time.Duration
	// First are the times until the first node had each change.
	First []time.Duration
	// Took is the length of the run, and Changes the number of changes in it.
	Took    time.Duration
	Changes int
	// Nodes has the counts of each node. Kinds has the counts of all nodes by kind.
	Nodes []Counts
	Kinds map[string]Counts
	// Used is the usage of the processes, by name.
	Used map[string]usage
	// Notes are further results.
	Notes []string
}

// measure runs a scenario and returns its cost.
func (f *fleet) measure(ctx context.Context, s scenario) (*measurement, error) {
	m := &measurement{Backend: f.name, Scenario: s.name}
	nodes, kinds, err := f.traffic(ctx)
	if err != nil {
		return nil, err
	}
	if err := f.resetPeaks(); err != nil {
		return nil, err
	}
	before, err := f.usages()
	if err != nil {
		return nil, err
	}
	processes, begin := f.pids(), time.Now()
	if err := s.run(ctx, f, m); err != nil {
		return nil, fmt.Errorf("%s: scenario %s: %w", f.name, s.name, err)
	}
	m.Took = time.Since(begin)
	if m.Used, err = f.usages(); err != nil {
		return nil, err
	}
	for name, pids := range f.pids() {
		if slices.Equal(pids, processes[name]) { // otherwise the process was restarted
			m.Used[name] = m.Used[name].since(before[name])
		}
	}
	after, all, err := f.traffic(ctx)
	if err != nil {
		return nil, err
	}
	for i := range after {
		m.Nodes = append(m.Nodes, after[i].since(nodes[i]))
	}
	m.Kinds = map[string]Counts{}
	for kind, c := range all {
		m.Kinds[kind] = c.since(kinds[kind])
	}
	return m, nil
}

// change makes one change, and records when the nodes have its marks.
func (f *fleet) change(ctx context.Context, m *measurement, marks []mark, write func() error) error {
	if _, err := call[None](ctx, f, "Expect", marks); err != nil {
		return err
	}
	begin := time.Now().UnixNano()
	if err := write(); err != nil {
		return err
	}
	a, err := f.await(ctx)
	if err != nil {
		return err
	}
	m.Changes++
	slices.Sort(a.Nodes)
	m.First = append(m.First, time.Duration(a.Nodes[0]-begin))
	for _, at := range a.Nodes {
		m.Latencies = append(m.Latencies, time.Duration(at-begin))
	}
	return nil
}

func start(ctx context.Context, f *fleet, m *measurement) error {
	begin := time.Now().UnixNano()
	times, err := f.start(ctx)
	slices.Sort(times)
	for _, at := range times {
		m.Latencies = append(m.Latencies, time.Duration(at-begin))
	}
	if err == nil {
		m.First = append(m.First, m.Latencies[0])
	}
	return err
}

func idle(ctx context.Context, f *fleet, _ *measurement) error {
	if _, err := call[None](ctx, f, "Collect", None{}); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(f.cfg.Idle):
		return nil
	}
}

func label(ctx context.Context, f *fleet, m *measurement) error {
	pod := f.world.target
	expected, patch := toggle(pod.Labels)
	return f.change(ctx, m, []mark{expected(netip.MustParseAddr(pod.Status.PodIP))}, func() error {
		return f.backend.change(ctx, pod, patch)
	})
}

func editPolicy(ctx context.Context, f *fleet, m *measurement) error {
	patch := f.world.editPort()
	return f.change(ctx, m, []mark{portOf("knp.default."+fleetPolicy, f.world.port)}, func() error {
		return f.backend.change(ctx, f.world.edited, patch)
	})
}

func relabel(ctx context.Context, f *fleet, m *measurement) error {
	expected, patch := toggle(f.world.batch.Labels)
	var marks []mark
	for _, a := range f.world.batchAddresses() {
		marks = append(marks, expected(a))
	}
	return f.change(ctx, m, marks, func() error {
		return f.backend.change(ctx, f.world.batch, patch)
	})
}

// lifetime is how long a pod of churn lives.
const lifetime = 10 * time.Second

func churn(ctx context.Context, f *fleet, m *measurement) error {
	count := int(f.cfg.Churn.Seconds()) * f.cfg.Rate
	marks := make([]mark, 0, count)
	for i := range count {
		marks = append(marks, added(podAddress(maxPods+i)))
	}
	if _, err := call[None](ctx, f, "Expect", marks); err != nil {
		return err
	}
	written, lateness, err := f.churn(ctx, count)
	if err != nil {
		return err
	}
	// Read the arrivals before the marks are replaced by the last one.
	begin := time.Now()
	seen, err := call[Arrivals](ctx, f, "Arrivals", None{})
	if err != nil {
		return err
	}
	all := map[mark]span{}
	for _, a := range seen {
		for mk, s := range a.Marks {
			all[mk] = all[mk].join(s)
		}
	}
	nodes := 0
	for i, at := range written {
		s := all[marks[i]]
		if nodes += s.Count; s.Count == f.cfg.Nodes {
			m.First = append(m.First, time.Duration(s.First-at))
			m.Latencies = append(m.Latencies, time.Duration(s.Last-at))
		}
	}
	// A node that is late may not receive a pod that was created and deleted in the meantime.
	// Therefore make one last change, which all nodes receive after all others.
	err = label(ctx, f, &measurement{})
	m.Changes = count
	m.Notes = append(m.Notes,
		fmt.Sprintf("%d pods were created and deleted; the last write ended %s after its time", count, round(lateness)),
		fmt.Sprintf("%d of %d pods were seen by all nodes, %.1f %% of all arrivals", len(m.Latencies), count,
			100*float64(nodes)/float64(count*f.cfg.Nodes)),
		fmt.Sprintf("all nodes had everything %s after the last deletion", round(time.Since(begin))))
	return err
}

// churn writes and deletes the pods of the scenario churn. It returns when the write of each pod
// began, and by how much the last deletion was late.
func (f *fleet) churn(ctx context.Context, count int) (written []int64, lateness time.Duration, err error) {
	written = make([]int64, count)
	var done atomic.Int64
	stop := f.progress("pods of churn", func() string { return fmt.Sprintf("%d of %d written", done.Load(), count) })
	defer stop()
	namespace := newNamespace("churn", "churn")
	if f.world.churned.CompareAndSwap(false, true) {
		if err := f.backend.create(ctx, []metav1.Object{namespace}, &atomic.Int64{}); err != nil {
			return nil, 0, err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2 * f.cfg.Rate * int(lifetime.Seconds()))
	begin, interval := time.Now(), time.Second/time.Duration(f.cfg.Rate)
	for i := range count {
		if !sleepUntil(ctx, begin.Add(time.Duration(i)*interval)) {
			break
		}
		group.Go(func() error {
			pod := f.world.churnPod(i)
			start := time.Now()
			written[i] = start.UnixNano()
			if err := f.backend.create(ctx, []metav1.Object{pod}, &done); err != nil {
				return err
			}
			if !sleepUntil(ctx, start.Add(lifetime)) {
				return context.Cause(ctx)
			}
			return f.backend.remove(ctx, pod)
		})
	}
	err = group.Wait()
	return written, time.Since(begin.Add(time.Duration(count)*interval + lifetime)), err
}

// sleepUntil waits until a time. It returns false if ctx is done before.
func sleepUntil(ctx context.Context, at time.Time) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(time.Until(at)):
		return true
	}
}

func reconnect(ctx context.Context, f *fleet, m *measurement) error {
	stopped := time.Now()
	f.backend.restart()
	m.Notes = append(m.Notes, fmt.Sprintf("the server was ready %s after the kill", round(time.Since(stopped))))
	return label(ctx, f, m)
}

func restart(ctx context.Context, f *fleet, m *measurement) error {
	if err := f.stop(ctx); err != nil {
		return err
	}
	return start(ctx, f, m)
}
