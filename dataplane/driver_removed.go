// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"

	"github.com/wayleave/wayleave/policy"
)

// WaitRemoved returns once an endpoint (or host endpoint) is removed from all dataplanes: first its
// routes, then its policy. The latest state that was sent before the call counts.
//
//   - It waits until the removal of the endpoint is sent. An endpoint that was never sent counts as
//     removed.
//   - It waits for the first complete state. Until then, the kernel may have objects of the
//     endpoint from an earlier run.
//
// Errors: the context's, or ErrStopped.
func (d *Driver) WaitRemoved(ctx context.Context, endpoint policy.Key) error {
	return d.waitFor(ctx, func(p *progress) bool {
		_, leaving := p.leaving[endpoint]
		return p.InSync && p.endpoints[endpoint] == nil && !leaving
	}, nil)
}

// markRemoved forgets the endpoints that are now removed from all dataplanes. last is the number of
// the last batch of the round. unfinished has the endpoints that are still in a dataplane.
func (p *progress) markRemoved(result *roundResult, last uint64, unfinished map[policy.Key]*removal) {
	for k, sent := range p.leaving {
		if sent <= last && unfinished[k] == nil && result.of(k) == nil {
			delete(p.leaving, k)
		}
	}
}
