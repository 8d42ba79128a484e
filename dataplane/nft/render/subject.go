// SPDX-License-Identifier: Apache-2.0

package render

import (
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// subject is an endpoint: a workload endpoint or a host endpoint.
type subject struct {
	key      policy.Key
	workload *dataplane.Endpoint
	host     *dataplane.HostEndpoint
	attached
	chains []string
	err    error
	// ok is set if the chains of a workload endpoint exist: it is up and not at fault.
	ok bool
	// enforced has the lists in which a host endpoint enforces policy. The lists in and out are
	// always enforced: they deny packets that no policy allows.
	enforced map[hostList]bool
}

// addChain adds a chain of the endpoint to the table.
func (s *subject) addChain(t *table, c *ruleset.Chain) {
	t.chains.Set(c)
	s.chains = append(s.chains, c.Name)
}

// first returns the endpoint with the smallest key other than except, or nil if there is none.
func first(subjects map[*subject]struct{}, except *subject) (s *subject) {
	for o := range subjects {
		if o != except && (s == nil || o.key.Compare(s.key) < 0) {
			s = o
		}
	}
	return s
}
