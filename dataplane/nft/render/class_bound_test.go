// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
)

// Rules that are not plain count for every class that they hold for. Otherwise n overlapping sets
// could make n outcomes of n/2 rules each.
func TestOutcomesAreBounded(t *testing.T) {
	const sets = 60
	p := newPlayer(t, render.Config{Classes: render.ClassesConfig{MaxPerGroup: 2000}})
	source := func(i int, ports ...policy.Port) dataplane.Event {
		id := fmt.Sprintf("%d", i)
		e := fromIPSet(id, "s:"+id)
		e.Policy.Ingress[0].Source.Ports = ports
		return e
	}
	var events []dataplane.Event
	var names []string
	for i := range sets {
		var members []string
		for host := range i + 1 {
			members = append(members, fmt.Sprintf("10.0.0.%d/32", host+1))
		}
		names = append(names, fmt.Sprintf("%d", i))
		events = append(events, prefixSet("s:"+names[i], members...), source(i, policy.PortNumber(1000+uint16(i))))
	}
	p.flush(append(events, classSubject("way0", names...))...)
	require.Equal(t, 1, p.r.ClassStats().ChainGroups)
	table, errs := p.r.Table()
	require.Empty(t, errs)
	rules := 0
	for _, c := range table.Chains {
		rules += len(c.Rules)
	}
	require.Less(t, rules, 7*sets)

	// Without the ports the rules come to one list for each class, however many there are.
	events = nil
	for i := range sets {
		events = append(events, source(i))
	}
	p.flush(events...)
	require.Zero(t, p.r.ClassStats().ChainGroups)
	p.flush(source(0, policy.PortNumber(1)), source(1, policy.PortNumber(2)))
	require.Zero(t, p.r.ClassStats().ChainGroups)
}
