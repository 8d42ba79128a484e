// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"sync"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// rules lets the table be read while the driver is at work, so that nobody need copy it after each
// attempt in case somebody asks. It is safe for concurrent use.
type rules struct {
	*nft.Dataplane // of which Watch and ConntrackStats alone may be called without mu

	mu sync.Mutex
}

var (
	_ dataplane.Dataplane = (*rules)(nil)
	_ dataplane.Planner   = (*rules)(nil)
	_ dataplane.Watcher   = (*rules)(nil)
)

func (r *rules) Apply(ctx context.Context, b dataplane.Batch) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Dataplane.Apply(ctx, b)
}

func (r *rules) Resync(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Dataplane.Resync(ctx)
}

func (r *rules) Teardown(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Dataplane.Teardown(ctx)
}

func (r *rules) Plan(ctx context.Context, b dataplane.Batch) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Dataplane.Plan(ctx, b)
}

// Table waits for what is being applied.
func (r *rules) Table() *ruleset.Table {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Dataplane.Table()
}

func (r *rules) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Dataplane.Close()
}
