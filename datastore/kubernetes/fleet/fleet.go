// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/rpc"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wayleave/wayleave/datastore/kubernetes/internal/apiserver"
)

// fleet has the nodes of one backend, the workers that run them, and the objects of their cluster.
type fleet struct {
	cfg     config
	name    string // of the backend
	backend backend
	world   *world
	workers []*workerProcess
	log     func(format string, args ...any)
}

// workerProcess is one worker.
type workerProcess struct {
	client *rpc.Client
	pid    int
	nodes  []string
}

// newFleet starts the servers and the workers of a backend, and writes the objects of the cluster.
// Servers and workers end with t.
func newFleet(t apiserver.T, cfg config, name string, log func(string, ...any)) (*fleet, error) {
	f := &fleet{cfg: cfg, name: name, world: newWorld(cfg), log: log}
	var err error
	if f.backend, err = newBackend(t, name); err != nil {
		return nil, err
	}
	server := f.backend.server()
	server.Omit = cfg.Omit
	for i, nodes := range nodeNames(cfg) {
		profile := ""
		if cfg.Profiles != "" {
			profile = filepath.Join(cfg.Profiles, fmt.Sprintf("%s-%d.pprof", name, i))
		}
		w, err := startWorker(t, nodes, profile)
		if err != nil {
			return nil, err
		}
		f.workers = append(f.workers, w)
		if err := w.client.Call("Worker.Assign", Assignment{server, nodes}, &None{}); err != nil {
			return nil, err
		}
	}
	return f, f.fill(t.Context())
}

// startWorker starts a worker, which ends with t.
func startWorker(t apiserver.T, nodes []string, profile string) (*workerProcess, error) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env, cmd.Stderr = append(os.Environ(), workerMode+"=1", profileFile+"="+profile), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	client := rpc.NewClient(pipe{out, in})
	t.Cleanup(func() {
		_ = client.Close() // the worker ends with its standard input
		busy := time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		busy.Stop()
	})
	return &workerProcess{client: client, pid: cmd.Process.Pid, nodes: nodes}, nil
}

// fill writes the objects of the cluster.
func (f *fleet) fill(ctx context.Context) error {
	objects, start := f.world.objects(), time.Now()
	var done atomic.Int64
	stop := f.progress("objects written", func() string { return fmt.Sprintf("%d of %d", done.Load(), len(objects)) })
	defer stop()
	// Namespaces come before the objects in them.
	rest := slices.IndexFunc(objects, func(o metav1.Object) bool { return o.GetNamespace() != "" })
	for _, part := range [][]metav1.Object{objects[:rest], objects[rest:]} {
		if err := f.backend.create(ctx, part, &done); err != nil {
			return err
		}
	}
	f.log("%s: %d objects written in %s", f.name, len(objects), round(time.Since(start)))
	return nil
}

// progress prints a line every ten seconds until stop is called.
func (f *fleet) progress(what string, state func() string) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(10 * time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-end:
				return
			case <-ticker.C:
				f.log("%s: %s: %s", f.name, what, state())
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(end)
		<-ended
	})
}

// call makes a call of every worker, and returns their results in the order of the workers.
func call[R any](ctx context.Context, f *fleet, method string, argument any) ([]R, error) {
	results := make([]R, len(f.workers))
	group, ctx := errgroup.WithContext(ctx)
	for i, w := range f.workers {
		group.Go(func() error {
			c := w.client.Go("Worker."+method, argument, &results[i], make(chan *rpc.Call, 1))
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-c.Done:
				return c.Error
			}
		})
	}
	return results, group.Wait()
}

// start starts all nodes at once, and waits until the Mirrors of all nodes are in sync. It returns
// for each node when that was, in nanoseconds since 1970.
func (f *fleet) start(ctx context.Context) ([]int64, error) {
	if _, err := call[None](ctx, f, "Start", None{}); err != nil {
		return nil, err
	}
	var complete atomic.Int64
	stop := f.progress("nodes complete", func() string { return fmt.Sprintf("%d of %d", complete.Load(), f.cfg.Nodes) })
	defer stop()
	timeout := time.NewTimer(f.cfg.Timeout)
	defer timeout.Stop()
	for {
		lists, err := call[[]int64](ctx, f, "Complete", None{})
		if err != nil {
			return nil, err
		}
		times := slices.DeleteFunc(slices.Concat(lists...), func(at int64) bool { return at == 0 })
		if complete.Store(int64(len(times))); len(times) == f.cfg.Nodes {
			return times, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-timeout.C:
			return nil, fmt.Errorf("%d of %d nodes are complete after %s", len(times), f.cfg.Nodes, f.cfg.Timeout)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (f *fleet) stop(ctx context.Context) error {
	_, err := call[None](ctx, f, "Stop", None{})
	return err
}

// await waits until all nodes have all expected marks.
func (f *fleet) await(ctx context.Context) (Arrivals, error) {
	lists, err := call[Arrivals](ctx, f, "Await", f.cfg.Timeout)
	all := Arrivals{Marks: map[mark]span{}}
	for _, a := range lists {
		all.Nodes = append(all.Nodes, a.Nodes...)
		for m, s := range a.Marks {
			all.Marks[m] = all.Marks[m].join(s)
		}
	}
	return all, err
}

// traffic returns the counts of all nodes, and the counts by kind.
func (f *fleet) traffic(ctx context.Context) (nodes []Counts, kinds map[string]Counts, err error) {
	lists, err := call[Traffic](ctx, f, "Traffic", None{})
	kinds = map[string]Counts{}
	for _, t := range lists {
		nodes = append(nodes, t.Nodes...)
		for kind, c := range t.Kinds {
			kinds[kind] = kinds[kind].add(c)
		}
	}
	return nodes, kinds, err
}

// nodesName is the name of the workers among the processes.
const nodesName = "nodes"

// pids returns the processes by name. All workers have the same name.
func (f *fleet) pids() map[string][]int {
	m := map[string][]int{}
	for name, pid := range f.backend.processes() {
		m[name] = []int{pid}
	}
	for _, w := range f.workers {
		m[nodesName] = append(m[nodesName], w.pid)
	}
	return m
}

// usages returns the usage of the processes, by name.
func (f *fleet) usages() (map[string]usage, error) {
	m := map[string]usage{}
	for name, pids := range f.pids() {
		for _, pid := range pids {
			u, err := usageOf(pid)
			if err != nil {
				return nil, err
			}
			m[name] = m[name].add(u)
		}
	}
	return m, nil
}

func (f *fleet) resetPeaks() error {
	var errs []error
	for _, pids := range f.pids() {
		for _, pid := range pids {
			errs = append(errs, resetPeak(pid))
		}
	}
	return errors.Join(errs...)
}

// verify compares the states of some nodes with that of a new graph of the same objects. It returns
// how many nodes it has compared.
func (f *fleet) verify(ctx context.Context, count int) (int, error) {
	verified := 0
	for i := range min(count, f.cfg.Nodes) {
		name := nodeName(i * f.cfg.Nodes / min(count, f.cfg.Nodes))
		at := slices.IndexFunc(f.workers, func(w *workerProcess) bool { return slices.Contains(w.nodes, name) })
		var got string
		if err := f.workers[at].client.Call("Worker.State", name, &got); err != nil {
			return verified, err
		}
		want, err := f.world.state(name)
		if err != nil {
			return verified, err
		}
		if got != want {
			return verified, fmt.Errorf("%s: its state differs from a fresh graph's\ngot:\n%s\nwant:\n%s",
				name, got, want)
		}
		if verified++; ctx.Err() != nil {
			return verified, context.Cause(ctx)
		}
	}
	return verified, nil
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
