// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"

	"github.com/wayleave/wayleave/policy"
)

// WaitRemoved returns once an endpoint (or host endpoint) is removed from all dataplanes: first its
// routes, then its policy. It waits for all batches that were sent before the call. In these cases
// it waits longer:
//
//   - If the removal of the endpoint was not sent yet, it waits for the removal. (An endpoint that
//     was never sent counts as removed.)
//   - If the batch with InSync was not applied yet, it waits for that batch. Until then, the kernel
//     may have objects of the endpoint from an earlier run.
//
// Errors: the context's, or ErrStopped.
func (d *Driver) WaitRemoved(ctx context.Context, endpoint policy.Key) error {
	return d.waitFor(ctx, func(p *progress) bool {
		_, leaving := p.leaving[endpoint]
		return p.InSync && p.endpoints[endpoint] == nil && !leaving
	}, nil)
}

// markRemoved forgets the endpoints that are now removed from all dataplanes. last is the number of
// the last batch that was applied. unfinished has the endpoints that are still in a dataplane.
func (p *progress) markRemoved(result *roundResult, last uint64, unfinished map[policy.Key]*removal) {
	for k, sent := range p.leaving {
		if sent <= last && unfinished[k] == nil && result.of(k) == nil {
			delete(p.leaving, k)
		}
	}
}
