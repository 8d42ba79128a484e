// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"strings"
	"sync"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/datastore/kubernetes"
	"github.com/wayleave/wayleave/datastore/kubernetes/report"
	"github.com/wayleave/wayleave/examples/agent/internal/build"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/kubernetes/convert"
)

// status writes faults and progress of the node to the API. It is safe for concurrent use.
type status struct {
	api      *API
	reporter *report.Reporter

	mu       sync.Mutex
	pipeline *pipeline.Pipeline // the pipeline that follow reports, or nil
}

func newStatus(cfg Config, a *API) (*status, error) {
	s := &status{api: a}
	var err error
	s.reporter, err = report.New(report.Config{
		Client: cfg.Clients.Client, Dynamic: cfg.Clients.Dynamic, Node: cfg.Node, Version: build.Read().Version,
		Revisions: s.revisions, Barrier: s.barrier, Logger: cfg.Logger.With("source", Name),
	})
	return s, err
}

// hooks returns the hooks for the source. They call the given hooks first, and then the reporter.
func (s *status) hooks(first kubernetes.Hooks) kubernetes.Hooks {
	return kubernetes.Hooks{
		Problems: func(object convert.Object, problems []error) {
			first.Problems(object, problems)
			s.reporter.Problems(object, problems)
		},
		Converted: func(object convert.Object, generation int64, problems []error) {
			first.Problems(object, problems)
			s.reporter.Converted(object, generation, problems)
		},
		Deleted: func(object convert.Object) {
			first.Deleted(object)
			s.reporter.Deleted(object)
		},
	}
}

// revisions returns the revisions of the kinds of policy. It leaves out Pods and other kinds that
// change all the time: with them, every node would write its report at each interval.
func (s *status) revisions() map[string]string {
	revisions := map[string]string{}
	for _, k := range s.api.source.Status().Kinds {
		if k.Revision != "" && strings.Contains(k.Kind, "polic") {
			revisions[k.Kind] = k.Revision
		}
	}
	return revisions
}

// barrier waits until all changes that the source has read are in the kernel.
func (s *status) barrier(ctx context.Context) error {
	s.mu.Lock()
	p := s.pipeline
	s.mu.Unlock()
	if p == nil {
		return dataplane.ErrStopped
	}
	if err := s.api.Barrier(ctx); err != nil {
		return err
	}
	return p.WaitApplied(ctx)
}

// follow reports the progress of a pipeline until ctx is done.
func (s *status) follow(ctx context.Context, p *pipeline.Pipeline) {
	s.set(p)
	defer s.set(nil)
	var ready sync.WaitGroup
	defer ready.Wait()
	ready.Go(func() {
		if s.api.Barrier(ctx) == nil && p.WaitApplied(ctx) == nil {
			s.reporter.Ready()
		}
	})
	s.reporter.Endpoints(p.Driver().EndpointChanges(ctx))
}

func (s *status) set(p *pipeline.Pipeline) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pipeline = p
}
