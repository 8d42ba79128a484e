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
	"github.com/wayleave/wayleave/examples/agent/internal/flows"
	"github.com/wayleave/wayleave/internal/packed"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// Driver returns the driver. Use it to read the status: only the pipeline may run it or send to it.
func (p *Pipeline) Driver() *dataplane.Driver { return p.driver }

// RunnerStats returns the statistics of the runner.
func (p *Pipeline) RunnerStats() calcgraph.RunnerStats { return p.runner.Stats() }

// World returns the current objects of all sources.
func (p *Pipeline) World() verdict.World { return p.source.World() }

// WorldWith returns the result of World for other sources: one source is added, and some are left
// out. The first parameter has the objects of the added source. The last parameter has the names of
// the sources to leave out. The added source comes before all others, so its objects replace
// objects with the same key. The added source counts as a source without Yields (see
// Config.Sources). Suppose that an endpoint of the added source and a workload endpoint of a source
// with Yields have the same interface. Then the result has only the endpoint of the added source.
func (p *Pipeline) WorldWith(first verdict.World, without ...string) verdict.World {
	return p.source.worldWith(first, without...)
}

// Objects returns how many objects the sources have. It does not read the objects.
func (p *Pipeline) Objects() int { return p.source.Len() }

// NoGracePeriod reports whether the kernel refuses membarrier(2). In this case, the pipeline cannot
// wait for packets under way when it changes the table. So a delayed packet may be evaluated partly
// by the old and partly by the new rules. With Config.Sockets, the result is false, because another
// process programs the kernel.
func (p *Pipeline) NoGracePeriod() bool { return p.kernel != nil && p.kernel.noGracePeriod }

// ClassStats returns how much kernel memory the lookup maps of policy need (see
// render.ClassesConfig), and the limits for this memory. With Config.Sockets, it returns the zero
// value.
func (p *Pipeline) ClassStats() render.ClassStats {
	if p.kernel == nil {
		return render.ClassStats{}
	}
	return p.kernel.table.ClassStats()
}

// Waiting returns the names of the sources that are not in sync yet: they have not been read
// completely.
func (p *Pipeline) Waiting() []string { return p.source.Waiting() }

// Unreadable returns the sources whose directory cannot be read at the moment, with the reason.
// Objects that were read earlier stay applied.
func (p *Pipeline) Unreadable() map[string]error {
	causes := map[string]error{}
	for name, dir := range p.dirs {
		if cause := dir.cause(); cause != nil {
			causes[name] = cause
		}
	}
	return causes
}

// directory returns the objects of a directory for the next pipeline. These are the objects that
// this pipeline read. If this pipeline never read the directory, they are the objects that it got
// from the previous pipeline (Config.Previous). This pipeline must have ended.
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

// View has the result of the graph for this node, computed from the objects of all sources.
type View struct {
	calcgraph.State
	// Batch has the events of the complete state, as a dataplane gets them.
	Batch dataplane.Batch
}

// View computes the result of the graph from the current objects of the sources: the policies, sets
// and routes that this node needs. Each call computes everything again, and takes as long as the
// start of a pipeline.
func (p *Pipeline) View() (*View, error) {
	g, err := p.compute(p.World())
	if err != nil {
		return nil, err
	}
	return &View{State: g.State(), Batch: g.Snapshot()}, nil
}

// Plan returns, as commands, the changes that the pipeline would make in the kernel if the sources
// had exactly the objects in the parameter next. It changes nothing.
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

// compute sends objects to a new graph, and flushes the graph.
func (p *Pipeline) compute(world verdict.World) (*calcgraph.Graph, error) {
	g, err := calcgraph.New(p.cfg.graph())
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

// Origins returns the place of each rule and each policy in the manifests. It reads the files. If
// the files have more than 1 MiB in total, it returns no places, because reading them would take
// too long.
func (p *Pipeline) Origins() flows.Origins {
	const maxSize = 1 << 20 // takes some seconds
	entries, _ := os.ReadDir(p.cfg.Manifests)
	size := int64(0)
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			size += info.Size()
		}
	}
	if size > maxSize {
		return flows.Origins{}
	}
	return Origins(p.cfg)
}

// Has reports whether a source has an object.
func (p *Pipeline) Has(source string, key policy.Key) bool {
	return p.source.Versions(key)[source] != nil
}

// Decode reads a file of manifests as the pipeline would.
func (p *Pipeline) Decode(file string, data []byte) ([]policy.Resource, []error) {
	return p.cfg.decode(file, data)
}

// errOtherNode is the error for an endpoint of another node.
var errOtherNode = errors.New("pipeline: the endpoint is another node's")

// WaitProgrammed waits until the kernel has the policy and routes of the endpoint e, with the
// interface and addresses of e. If the programmed endpoint has a MAC address, it must be that of e,
// too.
//
// Errors: the error of ctx; dataplane.ErrStopped; an error if e is an endpoint of another node. If
// the interface belongs to another endpoint, WaitProgrammed returns the error of Conflicts.
func (p *Pipeline) WaitProgrammed(ctx context.Context, e *policy.WorkloadEndpoint) error {
	return p.waitLike(ctx, e, sameAddresses)
}

// WaitAttached does the same as WaitProgrammed, but the endpoint in the kernel may have more
// addresses than e. The status of a pod may have addresses that the CNI plugin did not report.
func (p *Pipeline) WaitAttached(ctx context.Context, e *policy.WorkloadEndpoint) error {
	return p.waitLike(ctx, e, hasAddresses)
}

// waitLike waits until the endpoint e is in the kernel with the interface and MAC address of e. The
// function fit decides whether the endpoint's addresses are the right ones.
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
	go func() { // ends when inner is done
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

// WaitSources waits until all sources have been in sync once. If a source was in sync and then
// becomes unreadable, WaitSources does not wait for it again: its last known objects are still
// used.
//
// Errors: the error of ctx, or dataplane.ErrStopped.
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

// CheckInterface returns an error if the interface of e belongs to another endpoint. The interface
// belongs to an endpoint that names it, or to a host endpoint that expects an address of the
// interface. CheckInterface ignores endpoints of sources with Yields set, because they give way to
// others (see Config.Sources). Call WaitSources first: before that, the pipeline does not know all
// endpoints.
func (p *Pipeline) CheckInterface(e *policy.WorkloadEndpoint) error {
	return p.interfaces.check(e.Interface, e.Key())
}

// Conflicts returns the endpoints that are not programmed because their interface belongs to
// another endpoint. The error names the other endpoint.
func (p *Pipeline) Conflicts() map[policy.Key]error { return p.interfaces.all() }

// Status returns the status of the driver, and adds the endpoints of Conflicts as failed. The
// driver may have an endpoint with the same key from another source: then Status returns the
// driver's status of this endpoint.
func (p *Pipeline) Status() dataplane.Status {
	s := p.driver.Status()
	for key, err := range p.interfaces.all() {
		if _, known := s.Endpoints[key]; !known {
			s.Endpoints[key] = dataplane.EndpointStatus{State: dataplane.EndpointFailed, Err: err}
		}
	}
	return s
}

// WaitRemoved waits until the kernel no longer has an endpoint. Call it after a source has removed
// the endpoint. First WaitRemoved waits until all sources are in sync, as WaitSources does. Then it
// checks all sources except those that the last parameter names. If one of the checked sources
// still has an endpoint with the key on this node, the endpoint stays in the kernel. WaitRemoved
// then returns at once.
//
// Errors: the error of ctx, or dataplane.ErrStopped.
func (p *Pipeline) WaitRemoved(ctx context.Context, key policy.Key, without ...string) error {
	if err := p.WaitSources(ctx); err != nil { // until then, any source may have the endpoint
		return err
	}
	if p.source.hasLocal(key, without...) {
		return nil
	}
	if err := p.runner.Barrier(ctx); err != nil { // the driver may not have received the endpoint yet
		return stopped(err)
	}
	return p.driver.WaitRemoved(ctx, key)
}

// stopped replaces calcgraph.ErrStopped by dataplane.ErrStopped. Both mean that the pipeline has
// ended.
func stopped(err error) error {
	if errors.Is(err, calcgraph.ErrStopped) {
		return dataplane.ErrStopped
	}
	return err
}

// conflicts wakes goroutines that wait for a conflict of interfaces. It is safe for concurrent use.
type conflicts struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced when a conflict begins or ends
}

func newConflicts() *conflicts { return &conflicts{changed: make(chan struct{})} }

// wake makes the calls of wait call their function again.
func (c *conflicts) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.changed)
	c.changed = make(chan struct{})
}

// wait waits until conflict returns an error, and returns this error. It returns nil if ctx is done
// first.
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

// sameLink reports whether the endpoint has the interface and the MAC address of e. A missing MAC
// address is equal to any, because the endpoint may come from another source that does not know the
// address.
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

// VerdictLog returns Config.VerdictLog.
func (p *Pipeline) VerdictLog() render.VerdictLog { return p.cfg.VerdictLog }
