// SPDX-License-Identifier: Apache-2.0

package matrix_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/internal/matrix"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/probe"
	"github.com/wayleave/wayleave/policy/verdict"
)

func pod(name, app string, addrs ...string) *policy.WorkloadEndpoint {
	w := &policy.WorkloadEndpoint{
		Namespace: "shop", Name: name, Node: "n", Interface: "i" + name[max(0, len(name)-12):],
		Profiles: []string{"open"}, Labels: map[string]string{"app": app},
	}
	for _, a := range addrs {
		w.Addresses = append(w.Addresses, netip.MustParseAddr(a))
	}
	return w
}

// world returns a world in which all pods may connect to all pods, except over IPv6 to pods with
// the label app == "db".
func world(pods ...*policy.WorkloadEndpoint) verdict.World {
	w := verdict.World{}
	all := []policy.Rule{{Action: policy.Allow}}
	w.Set(&policy.Profile{Name: "open", Ingress: all, Egress: all},
		&policy.Policy{
			Name: "db", Selector: "app == 'db'", Ingress: []policy.Rule{{Action: policy.Allow, IPVersion: 4}},
		})
	for _, p := range pods {
		w.Set(p)
	}
	return w
}

func config(w verdict.World, port string) matrix.Config {
	p, err := probe.ParsePort(port)
	if err != nil {
		panic(err)
	}
	return matrix.Config{
		Evaluator: verdict.New(w), Partition: probe.NewPartition(w), Pods: probe.NewIndex(w).Endpoints(), Port: p,
	}
}

func compute(t *testing.T, cfg matrix.Config) *matrix.Matrix {
	t.Helper()
	m, err := matrix.Compute(t.Context(), cfg)
	require.NoError(t, err)
	return m
}

func TestText(t *testing.T) {
	w := world(pod("web-1", "web", "10.0.0.1", "fd00::1"), pod("web-2", "web", "10.0.0.2", "fd00::2"),
		pod("db", "db", "10.0.0.3", "fd00::3"), pod("old", "old", "10.0.0.4"))
	cfg := config(w, "tcp/80")
	cfg.Others = []probe.Party{
		{Name: "198.51.100.7", Addresses: []netip.Addr{netip.MustParseAddr("198.51.100.7")}},
		{Name: "2001:db8::7", Addresses: []netip.Addr{netip.MustParseAddr("2001:db8::7")}},
	}
	require.Equal(t, strings.TrimPrefix(`
tcp/80
                 1  2  3  4  5
1 shop/db           .  .. .   .
2 shop/old       .     .  .
3 shop/web-1 +1  .X .  .. .   .
4 198.51.100.7   .  .  .
5 2001:db8::7     X     .
3: shop/web-1 shop/web-2
`, "\n"), compute(t, cfg).Text(matrix.Style{}))
}

// The table marks flows to which no policy applies, and flows whose verdict differs between the
// ports of one name.
func TestTextOfOneFamily(t *testing.T) {
	a, b := pod("a", "web", "10.0.0.1"), pod("b", "web", "10.0.0.2")
	b.Ports = []policy.EndpointPort{
		{Name: "x", Protocol: policy.ProtocolTCP, Port: 1}, {Name: "x", Protocol: policy.ProtocolTCP, Port: 2},
	}
	w := world(a, b)
	w.Set(&policy.Policy{Name: "one", Selector: "all()", Ingress: []policy.Rule{{
		Action: policy.Allow, Protocol: policy.ProtocolTCP,
		Destination: policy.EntityRule{Ports: []policy.Port{policy.PortNumber(1)}},
	}}})
	require.Equal(t, "x\n          1 2\n1 shop/a    ~\n2 shop/b\n", compute(t, config(w, "x")).Text(matrix.Style{}))
	require.Equal(t, "x\n          1\n1 shop/a\n2 shop/b\n\n          2\n1 shop/a  ~\n2 shop/b\n",
		compute(t, config(w, "x")).Text(matrix.Style{Width: 12}))
	require.Equal(t, "x\n          1\n1 shop/a\n2 shop/b\n\n          2\n1 shop/a  ~\n2 shop/b\n",
		compute(t, config(w, "x")).Text(matrix.Style{Width: 1}), "narrower than a name")

	gone := config(w, "tcp/9")
	gone.Evaluator = verdict.New(verdict.World{}) // has neither pod
	require.Contains(t, compute(t, gone).Text(matrix.Style{Title: "all gone"}), "all gone\n          1 2\n"+
		"1 shop/a    -\n")
}

// Long names are cut in the table, and listed in full below it.
func TestTextOfLongNames(t *testing.T) {
	long := strings.Repeat("payment-service-", 12)
	var pods []*policy.WorkloadEndpoint
	for i := range 40 {
		pods = append(pods, pod(fmt.Sprintf("%s%02d", long, i), fmt.Sprint("app", i/2), fmt.Sprintf("10.0.0.%d", i+1)))
	}
	text := compute(t, config(world(pods...), "icmp")).Text(matrix.Style{Width: 100})
	for line := range strings.Lines(text) {
		if !strings.Contains(line, ": shop/") {
			require.LessOrEqual(t, len([]rune(line)), 101, line)
		}
	}
	for _, p := range pods {
		require.Contains(t, text, " shop/"+p.Name)
	}
	require.Contains(t, text, " 1 shop/payment-service-payment…t-service-payment-service-00 +1 ")
}

func TestComputeEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := matrix.Compute(ctx, config(world(pod("a", "web", "10.0.0.1")), "icmp"))
	require.ErrorIs(t, err, context.Canceled)
}

func TestEach(t *testing.T) {
	w := world(pod("a", "web", "10.0.0.1"), pod("b", "web", "10.0.0.2"), pod("c", "db", "10.0.0.3"))
	m := compute(t, config(w, "icmp"))
	require.Len(t, m.Groups, 2)
	var got []string
	require.NoError(t, m.Each(func(from, to probe.Party, c matrix.Cell) error {
		got = append(got, fmt.Sprint(from.Name, " ", to.Name, " ", c.IPv4, c.IPv6))
		return nil
	}))
	require.Equal(t, []string{
		"shop/a shop/b Allow", "shop/a shop/c Allow", "shop/b shop/a Allow", "shop/b shop/c Allow",
		"shop/c shop/a Allow", "shop/c shop/b Allow",
	}, got)
	stop := errors.New("enough")
	require.ErrorIs(t, m.Each(func(probe.Party, probe.Party, matrix.Cell) error { return stop }), stop)
}
