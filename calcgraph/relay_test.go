// SPDX-License-Identifier: Apache-2.0

package calcgraph_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// relayed records the output of a Relay.
type relayed []string

func (p *relayed) NodeUpdate(n *dataplane.Node)       { *p = append(*p, "node "+n.String()) }
func (p *relayed) NodeRemove(name string)             { *p = append(*p, "no node "+name) }
func (p *relayed) PoolUpdate(pool *dataplane.Pool)    { *p = append(*p, "pool "+pool.String()) }
func (p *relayed) PoolRemove(name string)             { *p = append(*p, "no pool "+name) }
func (p *relayed) ServiceUpdate(s *dataplane.Service) { *p = append(*p, "service "+s.String()) }
func (p *relayed) ServiceRemove(key policy.Key)       { *p = append(*p, "no service "+key.String()) }

func (p *relayed) NamespaceUpdate(n *dataplane.Namespace) { *p = append(*p, "namespace "+n.String()) }
func (p *relayed) NamespaceRemove(name string)            { *p = append(*p, "no namespace "+name) }
func (p *relayed) ServiceAccountUpdate(a *dataplane.ServiceAccount) {
	*p = append(*p, "account "+a.String())
}

func (p *relayed) ServiceAccountRemove(k dataplane.ServiceAccountKey) {
	*p = append(*p, "no account "+k.String())
}

// updateAndDeleteAll updates and deletes one resource of each kind, in forms that are not
// canonical.
func updateAndDeleteAll(p *calcgraph.Relay) {
	p.UpdateNode(&policy.Node{
		Name: "n", Addresses: []netip.Prefix{{}, netip.MustParsePrefix("::ffff:192.168.0.2/120")},
		IPv4WireguardAddr: netip.MustParseAddr("::ffff:10.0.1.1"), IPv6WireguardAddr: netip.MustParseAddr("fd00::1"),
		WireguardKeys: []policy.WireguardKey{{PublicKey: "one", Port: 1}, {PublicKey: "two", Port: 2, Rotating: true}},
	})
	p.UpdatePool(&policy.IPPool{
		Name: "p", CIDR: netip.MustParsePrefix("10.0.0.1/16"), IPIPMode: policy.EncapCrossSubnet,
	})
	p.UpdatePool(&policy.IPPool{Name: "q"})
	part := &policy.ServiceBackends{
		Namespace: "shop", Name: "web-1", Service: "web",
		Addresses: []netip.Addr{netip.MustParseAddr("::ffff:10.0.0.2"), netip.MustParseAddr("10.0.0.1")},
	}
	p.UpdateService(part)
	p.UpdateProfile(&policy.Profile{Name: "kns.shop"})
	p.UpdateProfile(&policy.Profile{Name: "ksa.shop.web"})
	p.UpdateProfile(&policy.Profile{Name: "plain"})
	p.DeleteNode("n")
	p.DeletePool("p")
	p.DeleteService(part.Key())
	for _, name := range []string{"kns.shop", "ksa.shop.web", "plain", "kns.", "ksa..web"} {
		p.DeleteProfile(name)
	}
}

func TestRelay(t *testing.T) {
	var got relayed
	updateAndDeleteAll(&calcgraph.Relay{
		Nodes: &got, Pools: &got, Services: &got, Namespaces: &got, ServiceAccounts: &got,
	})
	require.Equal(t, relayed{
		"node n [192.168.0.2/24] wireguard [one:1 two:2:rotating] [10.0.1.1 fd00::1]",
		"pool p 10.0.0.0/16 ipip-cross-subnet",
		"no pool q",
		"service ServiceBackends/shop/web-1 of web [10.0.0.1 10.0.0.2]",
		"namespace shop",
		"account shop/web",
		"no node n",
		"no pool p",
		"no service ServiceBackends/shop/web-1",
		"no namespace shop",
		"no account shop/web",
	}, got)
	updateAndDeleteAll(&calcgraph.Relay{}) // without receivers, everything is ignored
}
