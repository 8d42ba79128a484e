// SPDX-License-Identifier: Apache-2.0

package worlds

import "cmp"

// Config sets the size of random worlds. The zero value is usable. A number below 1 means the
// default.
type Config struct {
	// Seed of the random numbers. Generators with equal configurations return equal sequences.
	Seed uint64
	// Policies, Endpoints and NetworkSets are how many resources of the kind World makes, and how many
	// names Update picks from in each namespace. Default 8, 8 and 4.
	Policies, Endpoints, NetworkSets int
	// Rules is how many rules a policy or a profile has at most in one direction. Default 3 for the
	// ingress of policies and 2 for the rest.
	Rules int
	// Interfaces are the host's sides of the endpoints on Node. The first len(Interfaces) endpoints
	// are then on Node, one for each interface, and no other endpoint has one of their addresses: an
	// address or an interface identifies an endpoint. Default: each endpoint is on a random node, has
	// an interface of its own, and may share addresses.
	Interfaces []string
	// Open makes more rules reachable: all tiers exist, most of them pass at their end, and rules have
	// fewer criteria. Without it, the end of the first tier denies most packets.
	Open bool
	// OnlyValid leaves out resources that are invalid on purpose.
	OnlyValid bool
}

// withDefaults returns the configuration with its defaults.
func (c Config) withDefaults() Config {
	c.Policies = cmp.Or(max(c.Policies, 0), 8)
	c.Endpoints = max(cmp.Or(max(c.Endpoints, 0), 8), len(c.Interfaces))
	c.NetworkSets = cmp.Or(max(c.NetworkSets, 0), 4)
	return c
}

// mostRules returns the limit of rules in a direction.
func (c Config) mostRules(standard int) int { return cmp.Or(max(c.Rules, 0), standard) }
