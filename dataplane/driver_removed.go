// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"

	"github.com/wayleave/wayleave/policy"
)

// WaitRemoved returns once nothing of an endpoint (or host endpoint) is in any dataplane: its
// routes, then its policy, by the latest state that was sent before the call. It waits for the first
// complete state, because until then something of an earlier run may be there, and for the removal of
// the endpoint to be sent. An endpoint that was never sent counts as removed.
//
// Errors: the context's, or ErrStopped.
func (d *Driver) WaitRemoved(ctx context.Context, endpoint policy.Key) error {
	return d.waitFor(ctx, func(p *progress) bool {
		_, leaving := p.leaving[endpoint]
		return p.InSync && p.endpoints[endpoint] == nil && !leaving
	}, nil)
}

// markRemoved drops the endpoints that a round up to the last batch has removed from all dataplanes.
// unfinished has the endpoints that some dataplane still has.
func (p *progress) markRemoved(result *roundResult, last uint64, unfinished map[policy.Key]*removal) {
	for k, sent := range p.leaving {
		if sent <= last && unfinished[k] == nil && result.of(k) == nil {
			delete(p.leaving, k)
		}
	}
}
