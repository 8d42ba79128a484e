// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"sync"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/datastore/etcd"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/policy"
)

// Follow reports the progress of the pipeline until ctx is done. Cancel ctx before the pipeline
// ends.
func (c *Cluster) Follow(ctx context.Context, p *pipeline.Pipeline) {
	var following sync.WaitGroup
	defer following.Wait()
	following.Go(func() { c.advance(ctx, p) })
	for {
		next := p.Round()
		c.report(p)
		select {
		case <-next:
		case <-ctx.Done():
			return
		}
	}
}

// advance records each delivered revision as applied once all changes up to it are in the kernel.
func (c *Cluster) advance(ctx context.Context, p *pipeline.Pipeline) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.news:
		}
		c.mu.Lock()
		delivered, history, unknown := c.delivered, c.history, c.applied == 0
		c.mu.Unlock()
		if delivered == 0 {
			continue
		}
		if unknown {
			c.report(p)
		}
		if err := p.WaitApplied(ctx); err != nil {
			return // the pipeline ends
		}
		c.reached(delivered, history)
		c.report(p)
	}
}

// reached records a revision as applied, unless the history has changed since.
func (c *Cluster) reached(revision etcd.Revision, history *etcd.History) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.history == history {
		c.applied = revision
	}
}

// report passes a new report to the Reporter. It reads the revision before the faults. Therefore
// the report never has a revision without the faults of the changes up to it.
func (c *Cluster) report(p *pipeline.Pipeline) {
	c.reporting.Lock()
	defer c.reporting.Unlock()
	c.mu.Lock()
	r := etcd.Report{Revision: c.applied, History: c.history, Endpoints: map[policy.Key]etcd.EndpointStatus{}}
	known := c.applied != 0 // otherwise the unusable objects in etcd are not known yet
	c.mu.Unlock()
	status := p.Status()
	r.InSync, r.Faults = known && status.InSync, faults(status, c.cfg.Node)
	for _, absent := range []map[policy.Key]error{p.Absent(Name), c.source.Unusable(), p.DoubtsOf(Name)} {
		for key, problem := range absent {
			r.Faults[key] = problem.Error()
		}
	}
	for key, e := range status.Endpoints {
		s := etcd.EndpointStatus{State: e.State.String(), Generation: e.Generation}
		if e.Err != nil {
			s.Problem = e.Err.Error()
		}
		r.Endpoints[key] = s
	}
	c.reporter.Set(r)
}

// faults returns the objects that could not be programmed, with the reason. A failure that belongs
// to no object is listed under the key of the node. An endpoint whose interface does not exist is
// down, which is not a fault.
func faults(s dataplane.Status, node string) map[policy.Key]string {
	found := map[policy.Key]string{}
	objects, general := dataplane.ApplyErrors(s.LastError)
	for key, err := range objects {
		found[key] = err.Error()
	}
	if general {
		found[policy.Key{Kind: policy.KindNode, Name: node}] = s.LastError.Error()
	}
	for key, e := range s.Endpoints {
		if e.State != dataplane.EndpointDown && e.Err != nil && found[key] == "" {
			found[key] = e.Err.Error()
		}
	}
	return found
}
