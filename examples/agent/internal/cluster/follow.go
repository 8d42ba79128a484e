// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"maps"
	"sync"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/datastore/etcd"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/policy"
)

// Follow reports what is in the kernel, as the pipeline programs it, until ctx is done. That must be before the pipeline is gone.
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

// advance says of each revision that the receiver was told that it is in force, once all of it is in the kernel.
func (c *Cluster) advance(ctx context.Context, p *pipeline.Pipeline) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.news:
		}
		c.mu.Lock()
		told := c.told
		c.mu.Unlock()
		if told == 0 {
			continue
		}
		if err := p.InForce(ctx); err != nil {
			return // the pipeline ends
		}
		c.forgive(ctx)
		c.mu.Lock()
		c.inForce = told
		c.mu.Unlock()
		c.report(p)
	}
}

// forgive forgets those of the unreadable objects that are gone or can be read by now.
func (c *Cluster) forgive(ctx context.Context) {
	c.mu.Lock()
	unreadable := maps.Clone(c.unreadable)
	c.mu.Unlock()
	for key, problem := range unreadable {
		if _, err := c.store.Get(ctx, key); err == nil || errors.Is(err, etcd.ErrNotFound) {
			c.mu.Lock()
			if c.unreadable[key] == problem { // and not one that came meanwhile
				delete(c.unreadable, key)
			}
			c.mu.Unlock()
		}
	}
}

// report hands the reporter what there is to say now. What was in force before is never taken for later than it is:
// the status is looked at after the revision.
func (c *Cluster) report(p *pipeline.Pipeline) {
	c.mu.Lock()
	defer c.mu.Unlock()
	status := p.Driver().Status()
	r := etcd.Report{
		Revision: c.inForce, InSync: status.InSync, Faults: faults(status), Endpoints: map[policy.Key]etcd.EndpointStatus{},
	}
	for key, problem := range c.unreadable {
		r.Faults[key] = problem.Error()
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

// faults returns what is at fault, with the reason.
func faults(s dataplane.Status) map[policy.Key]string {
	found := map[policy.Key]string{}
	var search func(err error)
	search = func(err error) {
		switch e := err.(type) {
		case nil:
		case *dataplane.ApplyError:
			if e.Object != (policy.Key{}) {
				found[e.Object] = e.Error()
			}
		case interface{ Unwrap() []error }:
			for _, inner := range e.Unwrap() {
				search(inner)
			}
		case interface{ Unwrap() error }:
			search(e.Unwrap())
		}
	}
	search(s.LastError)
	for key, e := range s.Endpoints {
		if e.Err != nil && found[key] == "" {
			found[key] = e.Err.Error()
		}
	}
	return found
}
