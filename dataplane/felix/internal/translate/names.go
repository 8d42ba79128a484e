// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"net/netip"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/felix/felixpb"
)

// applyNames takes an event of a namespace or service account. It ignores others.
func (t *Translator) applyNames(e dataplane.Event) {
	switch e := e.(type) {
	case *dataplane.NamespaceUpdate:
		update(t, t.network.namespaces, e.Namespace.Name, e.Namespace,
			func(_ string, n *dataplane.Namespace) { t.sendNamespace(n) })
	case *dataplane.NamespaceRemove:
		if t.network.namespaces[e.Name] != nil && t.send != nil {
			t.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_NamespaceRemove{
				NamespaceRemove: &felixpb.NamespaceRemove{Id: &felixpb.NamespaceID{Name: e.Name}},
			}})
		}
		delete(t.network.namespaces, e.Name)
	case *dataplane.ServiceAccountUpdate:
		update(t, t.network.accounts, e.ServiceAccount.Key, e.ServiceAccount,
			func(_ dataplane.ServiceAccountKey, a *dataplane.ServiceAccount) { t.sendAccount(a) })
	case *dataplane.ServiceAccountRemove:
		if t.network.accounts[e.Key] != nil && t.send != nil {
			t.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_ServiceAccountRemove{
				ServiceAccountRemove: &felixpb.ServiceAccountRemove{Id: accountID(e.Key)},
			}})
		}
		delete(t.network.accounts, e.Key)
	}
}

func (t *Translator) sendNamespace(n *dataplane.Namespace) {
	t.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_NamespaceUpdate{
		NamespaceUpdate: &felixpb.NamespaceUpdate{Id: &felixpb.NamespaceID{Name: n.Name}, Labels: n.Labels},
	}})
}

func (t *Translator) sendAccount(a *dataplane.ServiceAccount) {
	t.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_ServiceAccountUpdate{
		ServiceAccountUpdate: &felixpb.ServiceAccountUpdate{Id: accountID(a.Key), Labels: a.Labels},
	}})
}

func accountID(k dataplane.ServiceAccountKey) *felixpb.ServiceAccountID {
	return &felixpb.ServiceAccountID{Namespace: k.Namespace, Name: k.Name}
}

// firstAddresses returns the first address of each family of a node, with the length of its subnet. The zero Prefix
// means that there is none, or no node.
func firstAddresses(n *dataplane.Node) (v4, v6 netip.Prefix) {
	if n == nil {
		return v4, v6
	}
	for _, p := range n.Addresses {
		first := &v6
		if p.Addr().Is4() {
			first = &v4
		}
		if !first.IsValid() {
			*first = p
		}
	}
	return v4, v6
}

// prefixText returns a prefix, or nothing for the zero Prefix.
func prefixText(p netip.Prefix) string {
	if !p.IsValid() {
		return ""
	}
	return p.String()
}

// sendNode sends a node, in all messages that a version of Felix has for it.
func (t *Translator) sendNode(old, n *dataplane.Node) {
	v4, v6 := firstAddresses(n)
	if t.dialect == Kinds {
		t.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_HostMetadataUpdate{
			HostMetadataUpdate: &felixpb.HostMetadataUpdate{
				Hostname: n.Name, Ipv4Addr: prefixText(v4), Ipv6Addr: prefixText(v6), Labels: n.Labels,
			},
		}})
	} else {
		t.sendAddresses(n.Name, old, n)
	}
	t.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_HostMetadataV4V6Update{
		HostMetadataV4V6Update: &felixpb.HostMetadataV4V6Update{
			Hostname: n.Name, Ipv4Addr: prefixText(v4), Ipv6Addr: prefixText(v6), Labels: n.Labels,
		},
	}})
}

// sendAddresses sends the changes of a node's first addresses, which have a message for each family.
func (t *Translator) sendAddresses(name string, old, n *dataplane.Node) {
	old4, old6 := firstAddresses(old)
	new4, new6 := firstAddresses(n)
	switch {
	case new4.IsValid():
		t.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_HostMetadataUpdate{
			HostMetadataUpdate: &felixpb.HostMetadataUpdate{Hostname: name, Ipv4Addr: new4.Addr().String()},
		}})
	case old4.IsValid():
		t.sendHostRemove(name)
	}
	switch {
	case new6.IsValid():
		t.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_HostMetadataV6Update{
			HostMetadataV6Update: &felixpb.HostMetadataV6Update{Hostname: name, Ipv6Addr: new6.Addr().String()},
		}})
	case old6.IsValid():
		t.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_HostMetadataV6Remove{
			HostMetadataV6Remove: &felixpb.HostMetadataV6Remove{Hostname: name},
		}})
	}
}

func (t *Translator) removeNode(name string) {
	old := t.network.nodes[name]
	delete(t.network.nodes, name)
	if old == nil || t.send == nil {
		return
	}
	if t.dialect == Kinds {
		t.sendHostRemove(name)
	} else {
		t.sendAddresses(name, old, nil)
	}
	t.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_HostMetadataV4V6Remove{
		HostMetadataV4V6Remove: &felixpb.HostMetadataV4V6Remove{Hostname: name},
	}})
}

func (t *Translator) sendHostRemove(name string) {
	t.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_HostMetadataRemove{
		HostMetadataRemove: &felixpb.HostMetadataRemove{Hostname: name},
	}})
}
