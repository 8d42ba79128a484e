// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/rpc"
	"os"
	"os/signal"
	"runtime/debug"
	"runtime/pprof"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/wayleave/wayleave/dataplane"
)

// workerMode is the environment variable that makes the program a worker.
const workerMode = "WAYLEAVE_FLEET_WORKER"

// profileFile is the environment variable with the path of a worker's processor profile.
const profileFile = "WAYLEAVE_FLEET_PROFILE"

// Worker runs some of the nodes. The coordinator calls its exported methods with net/rpc.
type Worker struct {
	ctx   context.Context
	kinds *kindMeters

	mu      sync.Mutex
	server  server
	names   []string
	meters  []*meter
	nodes   []*node // nil before Start
	tracker *tracker
	cancel  context.CancelFunc
	parts   *sync.WaitGroup
	failed  chan error // of a node; it has room for one error
}

// pipe is the connection to the coordinator.
type pipe struct {
	io.Reader
	io.WriteCloser
}

// work serves the coordinator until standard input ends.
func work() {
	signal.Ignore(os.Interrupt) // the coordinator ends the worker
	klog.SetOutput(io.Discard)  // a server that restarts causes a line for each watch
	klog.LogToStderr(false)
	debug.SetGCPercent(50) // the setting for an agent that needs little memory
	if path := os.Getenv(profileFile); path != "" {
		stop, err := profile(path)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
		defer stop()
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w := &Worker{ctx: ctx, kinds: &kindMeters{kinds: map[string]*kindMeter{}}, failed: make(chan error, 1)}
	calls := rpc.NewServer()
	if err := calls.RegisterName("Worker", w); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	calls.ServeConn(pipe{os.Stdin, os.Stdout})
}

// profile starts a processor profile.
func profile(path string) (stop func(), err error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		_ = file.Close()
	}, nil
}

// Assignment is the work of one worker.
type Assignment struct {
	Server server
	Nodes  []string
}

// None is an argument or a result without content.
type None struct{}

// Assign sets the nodes of the worker.
func (w *Worker) Assign(a Assignment, _ *None) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.server, w.names, w.tracker = a.Server, a.Nodes, newTracker(len(a.Nodes))
	for range a.Nodes {
		w.meters = append(w.meters, &meter{kinds: w.kinds})
	}
	return nil
}

// Start starts all nodes together, and does not wait for them.
func (w *Worker) Start(_ None, _ *None) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cancel != nil {
		return errors.New("the nodes are already running")
	}
	nodes := make([]*node, len(w.names))
	for i, name := range w.names {
		n, err := newNode(name, w.server, w.meters[i])
		if err != nil {
			return err
		}
		nodes[i] = n
	}
	ctx, cancel := context.WithCancel(w.ctx)
	w.nodes, w.cancel, w.parts = nodes, cancel, &sync.WaitGroup{}
	for i, n := range nodes {
		w.parts.Go(func() {
			applied := func(b dataplane.Batch, now time.Time) { w.tracker.record(i, b, now) }
			if err := n.run(ctx, applied); ctx.Err() == nil {
				select {
				case w.failed <- err:
				default:
				}
			}
		})
	}
	return nil
}

// Stop stops all nodes, and returns when they have ended.
func (w *Worker) Stop(_ None, _ *None) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cancel == nil {
		return nil
	}
	w.cancel()
	w.parts.Wait()
	w.cancel, w.nodes = nil, nil
	debug.FreeOSMemory()
	return nil
}

// Complete returns, for each node, the time at which the node was in sync, in nanoseconds since
// 1970. The time is 0 if the node is not in sync yet. Complete does not wait. It fails if a node
// has failed.
func (w *Worker) Complete(_ None, times *[]int64) error {
	select {
	case err := <-w.failed:
		return err
	default:
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.nodes {
		*times = append(*times, n.complete.Load())
	}
	return nil
}

// Expect replaces the expected marks. A mark is a change that the nodes must receive.
func (w *Worker) Expect(marks []mark, _ *None) error {
	w.tracker.expect(marks)
	return nil
}

// Await waits until all nodes have received all changes that were passed to Expect. It returns the
// times at which the nodes received them. Await fails after a timeout, or if a node fails.
func (w *Worker) Await(timeout time.Duration, a *Arrivals) error {
	ctx, cancel := context.WithTimeoutCause(w.ctx, timeout, fmt.Errorf("no change within %s", timeout))
	defer cancel()
	waited := make(chan error, 1)
	go func() { waited <- w.tracker.wait(ctx) }()
	select {
	case err := <-w.failed:
		return err
	case err := <-waited:
		*a = w.tracker.arrivals()
		return err
	}
}

// Arrivals returns the times at which nodes have received expected changes so far. It does not
// wait.
func (w *Worker) Arrivals(_ None, a *Arrivals) error {
	*a = w.tracker.arrivals()
	return nil
}

// Traffic has the counts of received and sent messages of the nodes.
type Traffic struct {
	// Nodes has the counts of each node.
	Nodes []Counts
	// Kinds has the counts of all nodes by kind.
	Kinds map[string]Counts
}

// Counts has the traffic of one node since its worker started.
type Counts struct {
	Received, Sent, Events, EventBytes, Requests, Failed, Dials int64
}

func (c Counts) add(o Counts) Counts {
	return Counts{
		c.Received + o.Received, c.Sent + o.Sent, c.Events + o.Events, c.EventBytes + o.EventBytes,
		c.Requests + o.Requests, c.Failed + o.Failed, c.Dials + o.Dials,
	}
}

func (c Counts) since(o Counts) Counts {
	return c.add(Counts{
		-o.Received, -o.Sent, -o.Events, -o.EventBytes, -o.Requests, -o.Failed, -o.Dials,
	})
}

// Traffic returns the counts of all nodes.
func (w *Worker) Traffic(_ None, t *Traffic) error {
	for _, m := range w.meters {
		t.Nodes = append(t.Nodes, Counts{
			Received: m.received.Load(), Sent: m.sent.Load(), Events: m.events.Load(),
			EventBytes: m.eventBytes.Load(), Requests: m.requests.Load(), Failed: m.failed.Load(),
			Dials: m.dials.Load(),
		})
	}
	t.Kinds = map[string]Counts{}
	w.kinds.mu.Lock()
	defer w.kinds.mu.Unlock()
	for kind, m := range maps.All(w.kinds.kinds) {
		t.Kinds[kind] = Counts{Received: m.bytes.Load(), Events: m.events.Load(), Requests: m.requests.Load()}
	}
	return nil
}

// State returns the state of the Mirror of one node, as text.
func (w *Worker) State(name string, text *string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.nodes {
		if n.name == name {
			*text = n.mirror.State().String()
			return nil
		}
	}
	return fmt.Errorf("no node %s runs here", name)
}

// Collect returns unused memory to the system.
func (w *Worker) Collect(_ None, _ *None) error {
	debug.FreeOSMemory()
	return nil
}
