// SPDX-License-Identifier: Apache-2.0

package connectivity_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/agent/internal/connectivity"
	"github.com/wayleave/wayleave/examples/agent/internal/node"
	"github.com/wayleave/wayleave/examples/agent/internal/probe"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// parties returns three parties: with both families, with IPv6 only, and with IPv4 only.
func parties() []node.Party {
	addr := netip.MustParseAddr
	return []node.Party{
		{Name: "a/both", Addresses: []netip.Addr{addr("10.0.0.1"), addr("2001:db8::1")}, Ports: []policy.EndpointPort{
			{Name: "http", Protocol: policy.ProtocolTCP, Port: 80},
			{Name: "dns", Protocol: policy.ProtocolUDP, Port: 53},
			{Name: "sig", Protocol: policy.ProtocolSCTP, Port: 1},
		}},
		{Name: "a/a-long-name", Addresses: []netip.Addr{addr("2001:db8::2")}},
		{Name: "out", Addresses: []netip.Addr{addr("10.0.0.3")}},
	}
}

// world returns a policy that allows only TCP to a/both, and everything to the other parties.
func world() *verdict.Evaluator {
	w := verdict.World{}
	w.Set(
		&policy.WorkloadEndpoint{
			Namespace: "a", Name: "both", Node: "n", Interface: "way1", Addresses: parties()[0].Addresses,
			Profiles: []string{"open"},
		},
		&policy.Profile{
			Name: "open", Egress: []policy.Rule{{Action: policy.Allow}},
			Ingress: []policy.Rule{{Action: policy.Allow, Protocol: policy.ProtocolTCP}},
		},
		&policy.WorkloadEndpoint{
			Namespace: "a", Name: "a-long-name", Node: "n", Interface: "way2", Addresses: parties()[1].Addresses,
			Profiles: []string{"all"},
		},
		&policy.Profile{
			Name: "all", Egress: []policy.Rule{{Action: policy.Allow}}, Ingress: []policy.Rule{{Action: policy.Allow}},
		},
	)
	return verdict.New(w)
}

// network returns the answer that policy decides, unless lie returns another one. It counts the
// probes.
type network struct {
	mu    sync.Mutex
	flows map[string]int
	ports map[uint16]int
	lie   func(from, to int, flow verdict.Flow, attempt int) *probe.Answer
}

func (n *network) probe(_ context.Context, from, to int, flow verdict.Flow, _ time.Duration) probe.Answer {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ports[flow.SrcPort]++
	flow.SrcPort = 0
	n.flows[flow.String()]++
	if n.lie != nil {
		if a := n.lie(from, to, flow, n.flows[flow.String()]); a != nil {
			return *a
		}
	}
	if world().Evaluate(flow).Combined == verdict.Allow {
		return probe.Answer{Outcome: probe.Passed}
	}
	return probe.Answer{Outcome: probe.Blocked}
}

func measure(
	t *testing.T, lie func(from, to int, flow verdict.Flow, attempt int) *probe.Answer,
) (*connectivity.Matrix, *network) {
	t.Helper()
	n := &network{flows: map[string]int{}, ports: map[uint16]int{}, lie: lie}
	m, err := connectivity.Measure(t.Context(), connectivity.Config{
		Parties: parties(), Evaluator: world(), Probe: n.probe, Ports: &connectivity.Ports{},
	})
	require.NoError(t, err)
	for port, times := range n.ports {
		require.Equal(t, 1, times, "port %d", port)
	}
	return m, n
}

func TestMatrixAgreesWithPolicy(t *testing.T) {
	m, n := measure(t, nil)
	require.Empty(t, m.Differences())
	require.Equal(t, strings.TrimPrefix(`
               a/both        a/a-long-name  out
               tcp udp icmp  icmp           icmp
               80  53
a/both                        .             .
a/a-long-name   .   X   X
out            .   X   X
`, "\n"), m.String())
	for flow, times := range n.flows {
		require.Equal(t, 1, times, flow)
	}
	coloured := m.Text(connectivity.Style{Coloured: true})
	plain := strings.NewReplacer("\x1b[32m", "", "\x1b[90m", "", "\x1b[0m", "").Replace(coloured)
	require.Equal(t, m.String(), plain)
	require.Contains(t, coloured, "out            \x1b[32m.\x1b[0m   \x1b[90mX\x1b[0m   \x1b[90mX\x1b[0m\n")
	require.Equal(t, strings.TrimPrefix(`
               a/both        a/a-long-name
               tcp udp icmp  icmp
               80  53
a/both                        .
a/a-long-name   .   X   X
out            .   X   X

               out
               icmp

a/both         .
a/a-long-name
out
`, "\n"), m.Text(connectivity.Style{Width: 44}))
	require.Equal(t, m.String(), m.Text(connectivity.Style{Width: 48}))
	require.Equal(t, 3, strings.Count(m.Text(connectivity.Style{Width: 1}), "icmp"), "a part for each party")
	require.Contains(t, connectivity.Legend(true), "  \x1b[1;31m!\x1b[0m  NOT BLOCKED")
}

// An answer to a blocked flow is not measured again, because a second measurement could hide it.
func TestLeakIsNotMeasuredAgain(t *testing.T) {
	m, n := measure(t, func(from, to int, f verdict.Flow, attempt int) *probe.Answer {
		if from == 2 && f.Protocol == policy.ProtocolUDP && attempt == 1 {
			return &probe.Answer{Outcome: probe.Passed}
		}
		if from == 2 && f.Protocol == policy.ProtocolICMP && attempt == 1 {
			return &probe.Answer{Outcome: probe.Broken, Err: errors.New("it arrived")}
		}
		return nil
	})
	require.Equal(t, []string{
		"out -> a/both: UDP 10.0.0.3:20006 -> 10.0.0.1:53: policy blocks it; an answer arrived",
		"out -> a/both: ICMP type 8 code 0 10.0.0.3 -> 10.0.0.1: policy blocks it; it arrived",
	}, anyPort(m.Differences(), "20006"))
	require.Contains(t, m.String(), "\nout            .   !   !\n")
	for flow, times := range n.flows {
		require.Equal(t, 1, times, flow)
	}
}

// anyPort replaces the source ports, which depend on the order of goroutines.
func anyPort(lines []string, port string) []string {
	for i, line := range lines {
		before, after, ok := strings.Cut(line, "10.0.0.3:")
		if _, rest, found := strings.Cut(after, " "); ok && found {
			lines[i] = before + "10.0.0.3:" + port + " " + rest
		}
	}
	return lines
}

// A missing answer is measured again with longer waits, a limited number of times.
func TestMissingAnswerIsMeasuredAgain(t *testing.T) {
	m, n := measure(t, func(from, _ int, f verdict.Flow, attempt int) *probe.Answer {
		if from == 2 && f.Protocol == policy.ProtocolTCP && attempt < 4 {
			return &probe.Answer{Outcome: probe.Blocked}
		}
		if from == 0 && f.Protocol == policy.ProtocolICMPv6 {
			return &probe.Answer{Outcome: probe.Broken, Err: errors.New("no route")}
		}
		return nil
	})
	require.Equal(t, []string{
		"a/both -> a/a-long-name: ICMPv6 type 128 code 0 2001:db8::1 -> 2001:db8::2: policy allows it; no route",
	}, m.Differences())
	require.Contains(t, m.String(), "\na/both                        ?             .\n")
	require.Equal(t, 4, n.flows["TCP 10.0.0.3:0 -> 10.0.0.1:80"])
	require.Equal(t, 4, n.flows["ICMPv6 type 128 code 0 2001:db8::1 -> 2001:db8::2"])
}

func TestMeasureEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n := &network{flows: map[string]int{}, ports: map[uint16]int{}, lie: func(
		int, int, verdict.Flow, int,
	) *probe.Answer {
		return &probe.Answer{Outcome: probe.Blocked}
	}}
	_, err := connectivity.Measure(ctx, connectivity.Config{
		Parties: parties(), Evaluator: world(), Probe: n.probe, Ports: &connectivity.Ports{},
	})
	require.ErrorIs(t, err, context.Canceled)
	_, err = connectivity.Measure(ctx, connectivity.Config{Parties: parties()})
	require.ErrorContains(t, err, "required")
}
