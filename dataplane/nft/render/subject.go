// SPDX-License-Identifier: Apache-2.0

package render

import (
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// subject is an endpoint that policy applies to: of a workload or of the host.
type subject struct {
	key      policy.Key
	workload *dataplane.Endpoint
	host     *dataplane.HostEndpoint
	attached
	chains []string
	err    error
	// ok says that the chains of a workload exist.
	ok bool
	// enforced has the lists in which a host endpoint enforces policy: in and out always, because
	// they deny what no policy allows.
	enforced map[hostList]bool
}

// addChain adds a chain of the endpoint to the table.
func (s *subject) addChain(t *table, c *ruleset.Chain) {
	t.chains.Set(c)
	s.chains = append(s.chains, c.Name)
}

// first returns the endpoint with the smallest key, except one; nil for none.
func first(subjects map[*subject]struct{}, except *subject) (s *subject) {
	for o := range subjects {
		if o != except && (s == nil || o.key.Compare(s.key) < 0) {
			s = o
		}
	}
	return s
}
