// SPDX-License-Identifier: Apache-2.0

package match

import (
	"fmt"
	"strings"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// WriteKey writes a key that identifies the effect of the rule: rules with different effects have
// different keys. If plain is set, the key has only the action, protocol and destination ports.
func (m *Merged) WriteKey(key *strings.Builder, plain bool) {
	ports := func(m *dataplane.Match) {
		for _, ports := range [...][]policy.Port{m.Ports, m.NotPorts} {
			key.WriteByte(';')
			for _, p := range ports {
				fmt.Fprintf(key, "%d-%d,", p.First, p.Last)
			}
		}
	}
	fmt.Fprintf(key, "%s %d!%d", m.Action, m.Protocol, m.NotProtocol)
	if plain {
		ports(&m.Destination)
		return
	}
	fmt.Fprintf(key, " %q ip %d", m.IDs, m.IPVersion)
	for _, i := range [...]*policy.ICMP{m.ICMP, m.NotICMP} {
		key.WriteString(" icmp")
		if i == nil {
			continue
		}
		for _, v := range [...]*int{i.Type, i.Code} {
			if v != nil {
				fmt.Fprintf(key, " %d", *v)
			} else {
				key.WriteString(" *")
			}
		}
	}
	writeHeaderKey(key, &m.HeaderMatch)
	for _, side := range [...]*dataplane.Match{&m.Source, &m.Destination} {
		fmt.Fprintf(key, " %v %v %q %q %q %q",
			side.Nets, side.NotNets, side.Sets, side.NotSets, side.PortSets, side.NotPortSets)
		ports(side)
	}
}
