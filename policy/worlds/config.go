// SPDX-License-Identifier: Apache-2.0

package worlds

import "cmp"

// Config sets the seed, the size and the shape of random worlds. The zero value is usable. If
// Policies, Endpoints, NetworkSets or Rules is below 1, it has its default.
type Config struct {
	// Seed is the seed of the random numbers. Generators with equal configurations return equal
	// sequences.
	Seed uint64
	// Policies, Endpoints and NetworkSets are the numbers of resources of each kind that
	// Generator.World returns. They also limit the names that Generator.Update chooses from. With
	// the default of 8 policies, a policy has one of the names pol-0 to pol-7, in any namespace or
	// in none. The defaults are 8, 8 and 4.
	Policies, Endpoints, NetworkSets int
	// Rules is the maximum number of rules of a policy or profile in one direction. The default is
	// 3 for the ingress of policies and 2 otherwise.
	Rules int
	// Interfaces are names of interfaces on Node. If the list is not empty, the first
	// len(Interfaces) endpoints are on Node, one for each interface. All other endpoints are on
	// other nodes. No address of an endpoint on Node belongs to a second endpoint. So an address or
	// an interface identifies an endpoint of Node. If the list is empty, each endpoint is on a
	// random node, has its own interface, and may share addresses with other endpoints.
	Interfaces []string
	// Open makes packets reach more rules: all tiers exist, most of them have the default action
	// Pass, and rules have fewer conditions. Without Open, the default action of the first tier
	// denies most packets.
	Open bool
	// OnlyValid makes all resources valid. By default, one in twenty is invalid.
	OnlyValid bool
}

// withDefaults returns the configuration with defaults instead of unset numbers.
func (c Config) withDefaults() Config {
	c.Policies = cmp.Or(max(c.Policies, 0), 8)
	c.Endpoints = max(cmp.Or(max(c.Endpoints, 0), 8), len(c.Interfaces))
	c.NetworkSets = cmp.Or(max(c.NetworkSets, 0), 4)
	return c
}

// mostRules returns the maximum number of rules in a direction.
func (c Config) mostRules(standard int) int { return cmp.Or(max(c.Rules, 0), standard) }
