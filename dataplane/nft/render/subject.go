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
	// ok says that the chains of a workload are there to lead packets to.
	ok bool
	// governed has the lists of a host endpoint that an enforced policy is in.
	governed map[hostList]bool
}

// addChain adds a chain of the endpoint to the table.
func (s *subject) addChain(t *table, c *ruleset.Chain) {
	t.chains.Set(c)
	s.chains = append(s.chains, c.Name)
}
