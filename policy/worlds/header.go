// SPDX-License-Identifier: Apache-2.0

package worlds

import "github.com/wayleave/wayleave/policy"

// header returns the IP header of a packet, with values that headerMatch uses and others.
func (g *Generator) header() policy.Header {
	return policy.Header{DSCP: Pick(g, []policy.DSCP{0, 0, 0, 10, 46, 63})}
}

// headerMatch sets some of the matches.
func (g *Generator) headerMatch(m *policy.HeaderMatch) {
	if g.chance(8) {
		m.DSCP = some(g, []policy.DSCP{0, 0, 10, 45, 46, 63})
	}
	if g.chance(8) {
		m.NotDSCP = some(g, []policy.DSCP{0, 0, 10, 45, 46, 63})
	}
}

// corruptHeader returns ways to make one field invalid.
func corruptHeader(m *policy.HeaderMatch) []func() {
	return []func(){
		func() { m.DSCP = append(m.DSCP[:len(m.DSCP):len(m.DSCP)], 64) },
		func() { m.NotDSCP = []policy.DSCP{255} },
	}
}

// some returns one to three of the values.
func some[T any](g *Generator, values []T) []T {
	var list []T
	for range 1 + g.rng.IntN(3) {
		list = append(list, Pick(g, values))
	}
	return list
}
