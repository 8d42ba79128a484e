// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// Driver returns the driver, to be asked for its status. Only the pipeline may run it or send to it.
func (p *Pipeline) Driver() *dataplane.Driver { return p.driver }

// RunnerStats returns what the runner has done.
func (p *Pipeline) RunnerStats() calcgraph.RunnerStats { return p.runner.Stats() }

// World returns what all sources but those of the given names say now.
func (p *Pipeline) World(without ...string) verdict.World { return p.source.world(without...) }

// Objects returns how many objects the sources have, without looking at any.
func (p *Pipeline) Objects() int { return p.source.count() }

// Waiting returns the names of the sources that have not told all yet.
func (p *Pipeline) Waiting() []string { return p.source.waiting() }

// View is what the graph makes of a world for this node. It is plain data.
type View struct {
	calcgraph.State
	// Batch has all that a dataplane needs to know.
	Batch dataplane.Batch
}

// View computes what the graph makes of the world as the sources tell it. It costs what a start costs, and nothing while
// nobody asks.
func (p *Pipeline) View() (*View, error) {
	g, err := p.compute(p.World())
	if err != nil {
		return nil, err
	}
	return &View{State: g.State(), Batch: g.Snapshot()}, nil
}

// Plan returns the commands that would be run if the world were another one.
//
// Errors: those of dataplane.Driver.Plan.
func (p *Pipeline) Plan(ctx context.Context, next verdict.World) (string, error) {
	now := p.World()
	g, err := p.compute(now)
	if err != nil {
		return "", err
	}
	for key := range now {
		if next[key] == nil {
			g.Update(policy.Update{Key: key})
		}
	}
	for key, r := range next {
		g.Update(policy.Update{Key: key, Resource: r})
	}
	return p.driver.Plan(ctx, g.Flush())
}

// compute gives a world to a graph of its own, and flushes it.
func (p *Pipeline) compute(world verdict.World) (*calcgraph.Graph, error) {
	g, err := calcgraph.New(calcgraph.Config{Node: p.cfg.Node})
	if err != nil {
		return nil, err
	}
	for key, r := range world {
		g.Update(policy.Update{Key: key, Resource: r})
	}
	g.InSync()
	g.Flush()
	return g, nil
}

// Decode reads a file of manifests as the pipeline would.
func (p *Pipeline) Decode(file string, data []byte) ([]policy.Resource, []error) {
	return p.cfg.decode(file, data)
}

// errOtherNode is of an endpoint that this node does not have.
var errOtherNode = errors.New("pipeline: the endpoint is another node's")

// WaitProgrammed returns once the endpoint is in the kernel with the interface, addresses and, if that is known, MAC address that e
// says, its policy and its routes.
//
// Errors: the context's, dataplane.ErrStopped, and that e is no endpoint of this node.
func (p *Pipeline) WaitProgrammed(ctx context.Context, e *policy.WorkloadEndpoint) error {
	if e.Node != p.cfg.Node {
		return errOtherNode
	}
	if err := p.sent.wait(ctx, e); err != nil {
		return err
	}
	return p.driver.WaitProgrammed(ctx, e.Key())
}

// WaitRemoved returns once nothing of an endpoint is in the kernel, which a source has just taken back. Where
// another source still has it, other than those of the given names, it stays and there is nothing to wait for.
//
// Errors: the context's, dataplane.ErrStopped.
func (p *Pipeline) WaitRemoved(ctx context.Context, key policy.Key, without ...string) error {
	select { // before that there is no telling who has it
	case <-p.source.complete:
	case <-ctx.Done():
		return ctx.Err()
	case <-p.sent.ended:
		return dataplane.ErrStopped
	}
	if p.source.has(key, without...) {
		return nil
	}
	if err := p.runner.Barrier(ctx); err != nil { // it may be on its way to the driver, which does not know it yet
		return stopped(err)
	}
	return p.driver.WaitRemoved(ctx, key)
}

// stopped returns ErrStopped of a dataplane for that of the runner: the pipeline has ended.
func stopped(err error) error {
	if errors.Is(err, calcgraph.ErrStopped) {
		return dataplane.ErrStopped
	}
	return err
}

// sent remembers the local endpoints that the driver was told of. It is safe for concurrent use.
type sent struct {
	mu        sync.Mutex
	batches   uint64 // as the driver counts them: nobody else sends to it
	endpoints map[policy.Key]*dataplane.Endpoint
	changed   chan struct{} // closed and replaced with every change
	ended     chan struct{} // closed when nothing is sent any more
}

func newSent() *sent {
	return &sent{endpoints: map[policy.Key]*dataplane.Endpoint{}, changed: make(chan struct{}), ended: make(chan struct{})}
}

func (s *sent) count() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.batches
}

func (s *sent) note(b dataplane.Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches++
	for _, e := range b.Events {
		switch e := e.(type) {
		case *dataplane.EndpointUpdate:
			s.endpoints[e.Key] = e.Endpoint
		case *dataplane.EndpointRemove:
			delete(s.endpoints, e.Key)
		}
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// wait returns once the endpoint was sent as e says.
func (s *sent) wait(ctx context.Context, e *policy.WorkloadEndpoint) error {
	for {
		s.mu.Lock()
		done, changed := s.hasLocked(e), s.changed
		s.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.ended:
			return dataplane.ErrStopped
		}
	}
}

// hasLocked reports whether the endpoint was sent as e says. Another source may have the endpoint too, and not know the MAC address.
func (s *sent) hasLocked(e *policy.WorkloadEndpoint) bool {
	got := s.endpoints[e.Key()]
	return got != nil && (got.MAC == e.MAC || got.MAC == "") && got.Interface == e.Interface && sameAddresses(got, e)
}

func sameAddresses(got *dataplane.Endpoint, e *policy.WorkloadEndpoint) bool {
	if len(got.Addresses) != len(e.Addresses) {
		return false
	}
	for _, a := range e.Addresses {
		if !slices.Contains(got.Addresses, a.Unmap()) {
			return false
		}
	}
	return true
}

// VerdictLog returns where verdicts are logged.
func (p *Pipeline) VerdictLog() nft.VerdictLog { return p.cfg.VerdictLog }
