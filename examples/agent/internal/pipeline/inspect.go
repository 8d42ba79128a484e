// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/internal/packed"
	"github.com/wayleave/wayleave/kubernetes/manifest"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// Driver returns the driver, for reading its status. Only the pipeline may run it or send to it.
func (p *Pipeline) Driver() *dataplane.Driver { return p.driver }

// RunnerStats returns the statistics of the runner.
func (p *Pipeline) RunnerStats() calcgraph.RunnerStats { return p.runner.Stats() }

// World returns the present objects of all sources.
func (p *Pipeline) World() verdict.World { return p.source.World() }

// WorldWith is like World, but without the sources of the given names and with some objects before
// those of the others: they replace objects with the same key, and own their interfaces.
func (p *Pipeline) WorldWith(first verdict.World, without ...string) verdict.World {
	return p.source.worldWith(first, without...)
}

// Objects returns how many objects the sources have, without looking at any.
func (p *Pipeline) Objects() int { return p.source.Len() }

// NoGracePeriod reports whether the kernel refuses membarrier(2); see applier.Stats. It is false with Config.Sockets.
func (p *Pipeline) NoGracePeriod() bool { return p.kernel != nil && p.kernel.noGracePeriod }

// ClassStats returns the cost of policy and its limits; see nft.Dataplane. It returns zero with Config.Sockets.
func (p *Pipeline) ClassStats() render.ClassStats {
	if p.kernel == nil {
		return render.ClassStats{}
	}
	return p.kernel.table.ClassStats()
}

// Waiting returns the names of the sources that are not in sync yet.
func (p *Pipeline) Waiting() []string { return p.source.Waiting() }

// Unreadable returns, by the name of the source, why its directory cannot be read now. Objects read
// before stay in force.
func (p *Pipeline) Unreadable() map[string]error {
	causes := map[string]error{}
	for name, dir := range p.dirs {
		if cause := dir.cause(); cause != nil {
			causes[name] = cause
		}
	}
	return causes
}

// directory returns the objects of a directory for the next pipeline: as this one read them or, if
// it did not come to that, as it got them from the one before. It is for a pipeline that has ended.
func (p *Pipeline) directory(source string) *packed.Objects {
	dir := p.dirs[source]
	switch {
	case dir == nil:
		return nil
	case slices.Contains(p.source.Waiting(), source):
		return dir.previousObjects()
	}
	known := &packed.Objects{}
	for key, r := range p.source.Objects(source) {
		known.Set(key, packed.Pack(r))
	}
	return known
}

// View has the results of the graph for a world and this node.
type View struct {
	calcgraph.State
	// Batch has all that a dataplane needs to know.
	Batch dataplane.Batch
}

// View computes the results of the graph for the present world of the sources. It takes as long as a start, and nothing
// is computed before the call.
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

// compute sends a world to a new graph, and flushes it.
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

// RuleOrigins returns where the manifests have the rules of policies; see the function of that name. It returns nil if
// the files have more than 1 MiB.
func (p *Pipeline) RuleOrigins() map[string]manifest.RuleOrigin {
	const maxSize = 1 << 20 // takes some seconds
	entries, _ := os.ReadDir(p.cfg.Manifests)
	size := int64(0)
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			size += info.Size()
		}
	}
	if size > maxSize {
		return nil
	}
	return RuleOrigins(p.cfg)
}

// Has reports whether a source has an object.
func (p *Pipeline) Has(source string, key policy.Key) bool {
	return p.source.Versions(key)[source] != nil
}

// Decode reads a file of manifests as the pipeline would.
func (p *Pipeline) Decode(file string, data []byte) ([]policy.Resource, []error) {
	return p.cfg.decode(file, data)
}

// errOtherNode is of an endpoint that this node does not have.
var errOtherNode = errors.New("pipeline: the endpoint is another node's")

// WaitProgrammed returns once the endpoint, with its policy and routes, is in the kernel with the interface, addresses
// and, if known, MAC address of e.
//
// Errors: the context's; dataplane.ErrStopped; one if e is an endpoint of another node; that of Conflicts if its
// interface belongs to another endpoint.
func (p *Pipeline) WaitProgrammed(ctx context.Context, e *policy.WorkloadEndpoint) error {
	return p.waitLike(ctx, e, sameAddresses)
}

// WaitAttached is like WaitProgrammed, but the endpoint may have more addresses than e: a pod's status may
// have some that its CNI plugin did not report.
func (p *Pipeline) WaitAttached(ctx context.Context, e *policy.WorkloadEndpoint) error {
	return p.waitLike(ctx, e, hasAddresses)
}

// waitLike waits until an endpoint with the interface and MAC address of e is in the kernel, with addresses
// that fit.
func (p *Pipeline) waitLike(
	ctx context.Context, e *policy.WorkloadEndpoint, fit func(*dataplane.Endpoint, *policy.WorkloadEndpoint) bool,
) error {
	if e.Node != p.cfg.Node {
		return errOtherNode
	}
	conflict := func() error { return p.interfaces.conflictOn(e.Interface, e.Key()) }
	if err := conflict(); err != nil {
		return err
	}
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // ends with inner
		if err := p.conflicts.wait(inner, conflict); err != nil {
			cancel(err)
		}
	}()
	err := p.driver.WaitEndpoint(inner, e.Key(), func(got *dataplane.Endpoint) bool {
		return sameLink(got, e) && fit(got, e)
	})
	if err != nil && ctx.Err() == nil && inner.Err() != nil {
		return context.Cause(inner)
	}
	return err
}

// WaitSources waits until all sources have been in sync once. It does not wait for a source that
// becomes unreadable after that: its last known objects count.
//
// Errors: the context's, dataplane.ErrStopped.
func (p *Pipeline) WaitSources(ctx context.Context) error {
	select {
	case <-p.source.Synced():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-p.ended:
		return dataplane.ErrStopped
	}
}

// CheckInterface returns an error if the interface of an endpoint belongs to another endpoint of a
// source that does not yield. That is a workload or host endpoint that names the interface, or a
// host endpoint that expects an address of the interface. All of these are known only after
// WaitSources.
func (p *Pipeline) CheckInterface(e *policy.WorkloadEndpoint) error {
	return p.interfaces.check(e.Interface, e.Key())
}

// Conflicts returns the endpoints that are absent because their interface belongs to another
// endpoint. The error names that endpoint.
func (p *Pipeline) Conflicts() map[policy.Key]error { return p.interfaces.all() }

// Status returns the status of the driver, and adds the endpoints of Conflicts as failed. It leaves out
// an endpoint of Conflicts that another source has, too.
func (p *Pipeline) Status() dataplane.Status {
	s := p.driver.Status()
	for key, err := range p.interfaces.all() {
		if _, known := s.Endpoints[key]; !known {
			s.Endpoints[key] = dataplane.EndpointStatus{State: dataplane.EndpointFailed, Err: err}
		}
	}
	return s
}

// WaitRemoved waits until an endpoint that a source has just removed is out of the kernel. It calls
// WaitSources first. If a source then has an endpoint of that name on this node, except those of the given
// names, it returns without waiting for the kernel.
//
// Errors: the context's, dataplane.ErrStopped.
func (p *Pipeline) WaitRemoved(ctx context.Context, key policy.Key, without ...string) error {
	if err := p.WaitSources(ctx); err != nil { // until then, any source may have it
		return err
	}
	if p.source.hasLocal(key, without...) {
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

// conflicts wakes those who wait for a conflict. It is safe for concurrent use.
type conflicts struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced when a conflict begins or ends
}

func newConflicts() *conflicts { return &conflicts{changed: make(chan struct{})} }

// wake makes the calls of wait look again.
func (c *conflicts) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.changed)
	c.changed = make(chan struct{})
}

// wait waits until conflict returns an error, and returns that. It returns nil if the context is
// done before.
func (c *conflicts) wait(ctx context.Context, conflict func() error) error {
	for {
		c.mu.Lock()
		changed := c.changed
		c.mu.Unlock()
		if err := conflict(); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// sameLink reports whether the endpoint has the link of e. Another source may have the endpoint too,
// without its MAC address.
func sameLink(got *dataplane.Endpoint, e *policy.WorkloadEndpoint) bool {
	return (got.MAC == e.MAC || got.MAC == "") && got.Interface == e.Interface
}

func sameAddresses(got *dataplane.Endpoint, e *policy.WorkloadEndpoint) bool {
	return len(got.Addresses) == len(e.Addresses) && hasAddresses(got, e)
}

// hasAddresses reports whether the endpoint has all addresses of e.
func hasAddresses(got *dataplane.Endpoint, e *policy.WorkloadEndpoint) bool {
	for _, a := range e.Addresses {
		if !slices.Contains(got.Addresses, a.Unmap()) {
			return false
		}
	}
	return true
}

// VerdictLog returns where verdicts are logged.
func (p *Pipeline) VerdictLog() render.VerdictLog { return p.cfg.VerdictLog }
