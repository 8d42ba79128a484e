// SPDX-License-Identifier: Apache-2.0

package ports_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/ports"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset/simulate"
)

// passes reports whether a table lets a frame through.
func passes(t *testing.T, table *ruleset.Table, port string, frame []byte) bool {
	t.Helper()
	s, err := simulate.New(simulate.Config{Table: table})
	require.NoError(t, err)
	r, err := s.Run(ruleset.Prerouting, simulate.Packet{IIFName: port, Frame: frame}, simulate.Conn{})
	require.NoError(t, err)
	return r.Verdict == ruleset.Accept
}

// TestFrames: S171: a port sends with the addresses of its endpoint, and no other port does.
func TestFrames(t *testing.T) {
	table := node(config(), allPorts())
	for _, c := range all() {
		require.Equal(t, c.passes, passes(t, table, c.port, c.frame), c.name)
	}
}

// TestEveryRuleIsNeeded: if any rule, match or element is removed, the result of at least one case
// changes.
func TestEveryRuleIsNeeded(t *testing.T) {
	everything := all()
	changed := func(table *ruleset.Table) bool {
		s, err := simulate.New(simulate.Config{Table: table})
		require.NoError(t, err)
		for _, c := range everything {
			r, err := s.Run(ruleset.Prerouting, simulate.Packet{IIFName: c.port, Frame: c.frame}, simulate.Conn{})
			require.NoError(t, err)
			if (r.Verdict == ruleset.Accept) != c.passes {
				return true
			}
		}
		return false
	}
	table := node(config(), allPorts())
	require.False(t, changed(table))
	for i, chain := range table.Chains {
		for j, rule := range chain.Rules {
			without := node(config(), allPorts())
			without.Chains[i].Rules = append(without.Chains[i].Rules[:j:j], without.Chains[i].Rules[j+1:]...)
			assert.True(t, changed(without), "without rule %d of %s: %s", j+1, chain.Name, rule)
			for k := range rule.Matches {
				without = node(config(), allPorts())
				ms := &without.Chains[i].Rules[j].Matches
				c, ok := (*ms)[k].(ruleset.Compare)
				if ok && (c.Field == ruleset.Protocol || c.Field == ruleset.L4Proto) {
					continue // the next match needs it: without it, the bytes have another meaning
				}
				*ms = append((*ms)[:k:k], (*ms)[k+1:]...)
				assert.True(t, changed(without), "without match %d of rule %d of %s: %s", k+1, j+1, chain.Name, rule)
			}
		}
	}
	for i, set := range table.Sets {
		for j := range set.Elements {
			without := node(config(), allPorts())
			without.Sets[i].Elements = append(set.Elements[:j:j], set.Elements[j+1:]...)
			assert.True(t, changed(without), "without element %d of %s", j+1, set.Name)
		}
	}
}

// TestText: Parse reads the table back from its text.
func TestText(t *testing.T) {
	for _, accept := range []bool{false, true} {
		cfg := config()
		cfg.AcceptUnknown = accept
		table := node(cfg, allPorts())
		require.NoError(t, table.Validate())
		parsed, err := ruleset.Parse(table.String())
		require.NoError(t, err)
		require.True(t, table.Equal(parsed), "%s", parsed)
	}
}

// TestAcceptUnknown: a port with the prefix and without an endpoint is like any other port.
func TestAcceptUnknown(t *testing.T) {
	cfg := config()
	cfg.AcceptUnknown = true
	table := node(cfg, allPorts())
	require.True(t, passes(t, table, "veth9", ipv4("10.0.0.77")))
	require.False(t, passes(t, table, "veth9", ipv4("10.0.0.1")))
	require.True(t, passes(t, table, "veth1", ipv4("10.0.0.1")))
}

// ipv4 returns a frame of the first port's MAC address.
func ipv4(src string) []byte {
	payload := nfttest.IP(addr(src), addr("10.0.0.7"), 17, nfttest.UDP(1, 2, nil))
	return nfttest.Ether(nfttest.Broadcast(), mac(1), nil, nfttest.EtherIPv4, payload)
}

// TestMovedAddress: while an address moves from one port to another, no moment allows it at both
// ports, nor at another port.
func TestMovedAddress(t *testing.T) {
	at := func(table *ruleset.Table) (out []string) {
		for _, port := range []string{"veth1", "veth2", "eth0", "veth9"} {
			if passes(t, table, port, ipv4("10.0.0.9")) {
				out = append(out, port)
			}
		}
		return out
	}
	require.Equal(t, []string{"veth1"}, at(node(config(), allPorts())))
	all := allPorts()
	all["veth1"] = ports.Port{Addresses: addrs("10.0.0.1")}
	all["veth2"] = ports.Port{Withheld: addrs("10.0.0.9")}
	require.Empty(t, at(node(config(), all)))
	all["veth2"] = ports.Port{Addresses: addrs("10.0.0.9")}
	require.Equal(t, []string{"veth2"}, at(node(config(), all)))
	delete(all, "veth2")
	require.Equal(t, []string{"eth0"}, at(node(config(), all))) // no endpoint has the address
}

// TestChanges: ports may share addresses. A change of ports changes only elements, and the same
// ports need no change.
func TestChanges(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		all := map[string]ports.Port{}
		state := ruleset.NewState(ruleset.FamilyBridge, "wayleave")
		for step := range 60 {
			name := fmt.Sprintf("veth%d", rng.IntN(4))
			if rng.IntN(4) == 0 {
				delete(all, name)
			} else {
				all[name] = somePort(rng)
			}
			table := node(config(), all)
			requireAddresses(t, all, table)
			change, err := state.Prepare(state.DeltaTo(table))
			require.NoError(t, err, "seed %d", seed)
			for _, op := range change.Ops {
				elements := op.Kind == ruleset.AddElements || op.Kind == ruleset.DeleteElements
				require.True(t, step == 0 || elements, "%s", op)
			}
			state.Commit(change)
			again := node(config(), all)
			require.Equal(t, again.String(), state.Table().String(), "seed %d", seed)
			change, err = state.Prepare(state.DeltaTo(again))
			require.NoError(t, err, "seed %d", seed)
			require.Empty(t, change.Ops)
		}
	}
}

// requireAddresses requires that a table has exactly the addresses of the ports.
func requireAddresses(t *testing.T, all map[string]ports.Port, table *ruleset.Table) {
	t.Helper()
	want := map[string]bool{}
	for name, p := range all {
		for _, a := range slices.Concat(p.Addresses, p.Withheld) {
			want["owned "+a.String()] = true
			if !p.Drop && !slices.Contains(p.Withheld, a) {
				want["allowed "+name+" "+a.String()] = true
			}
		}
	}
	got := map[string]bool{}
	for _, s := range table.Sets {
		for _, e := range s.Elements {
			a, _ := netip.AddrFromSlice(e.Key[len(e.Key)-1])
			switch s.Name {
			case "owned4", "owned6":
				got["owned "+a.String()] = true
			case "addresses4", "addresses6":
				got["allowed "+strings.TrimRight(string(e.Key[0]), "\x00")+" "+a.String()] = true
			}
		}
	}
	require.Equal(t, want, got)
}

// somePort returns a random port. Other ports may have its addresses, too.
func somePort(rng *rand.Rand) ports.Port {
	p := ports.Port{Drop: rng.IntN(5) == 0}
	if rng.IntN(2) == 0 {
		p.MAC = ports.MAC(mac(byte(rng.IntN(3) + 1)))
	}
	some := func() (out []netip.Addr) {
		for range rng.IntN(3) {
			out = append(out, addr(fmt.Sprintf([]string{"10.0.0.%d", "fd00::%d"}[rng.IntN(2)], rng.IntN(4))))
		}
		return out
	}
	p.Addresses, p.Withheld = some(), some()
	return p
}
