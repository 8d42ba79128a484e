// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"net/netip"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/felix/felixpb"
)

// applyNames applies an event of a namespace or service account. It ignores other events.
func (w *network) applyNames(e dataplane.Event) {
	switch e := e.(type) {
	case *dataplane.NamespaceUpdate:
		update(w.send != nil, w.namespaces, e.Namespace.Name, e.Namespace,
			func(_ string, n *dataplane.Namespace) { w.sendNamespace(n) })
	case *dataplane.NamespaceRemove:
		if w.namespaces[e.Name] != nil && w.send != nil {
			w.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_NamespaceRemove{
				NamespaceRemove: &felixpb.NamespaceRemove{Id: &felixpb.NamespaceID{Name: e.Name}},
			}})
		}
		delete(w.namespaces, e.Name)
	case *dataplane.ServiceAccountUpdate:
		update(w.send != nil, w.accounts, e.ServiceAccount.Key, e.ServiceAccount,
			func(_ dataplane.ServiceAccountKey, a *dataplane.ServiceAccount) { w.sendAccount(a) })
	case *dataplane.ServiceAccountRemove:
		if w.accounts[e.Key] != nil && w.send != nil {
			w.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_ServiceAccountRemove{
				ServiceAccountRemove: &felixpb.ServiceAccountRemove{Id: accountID(e.Key)},
			}})
		}
		delete(w.accounts, e.Key)
	}
}

func (w *network) sendNamespace(n *dataplane.Namespace) {
	w.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_NamespaceUpdate{
		NamespaceUpdate: &felixpb.NamespaceUpdate{Id: &felixpb.NamespaceID{Name: n.Name}, Labels: n.Labels},
	}})
}

func (w *network) sendAccount(a *dataplane.ServiceAccount) {
	w.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_ServiceAccountUpdate{
		ServiceAccountUpdate: &felixpb.ServiceAccountUpdate{Id: accountID(a.Key), Labels: a.Labels},
	}})
}

func accountID(k dataplane.ServiceAccountKey) *felixpb.ServiceAccountID {
	return &felixpb.ServiceAccountID{Namespace: k.Namespace, Name: k.Name}
}

// firstAddresses returns the first address of each family of a node, with the length of its subnet.
// The zero Prefix means that there is none, or no node.
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

// prefixText returns the text of a prefix, or "" for the zero Prefix.
func prefixText(p netip.Prefix) string {
	if !p.IsValid() {
		return ""
	}
	return p.String()
}

// sendNode sends a node, in the messages that a dialect has for it.
func (w *network) sendNode(old, n *dataplane.Node) {
	v4, v6 := firstAddresses(n)
	if w.dialect == Kinds {
		w.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_HostMetadataUpdate{
			HostMetadataUpdate: &felixpb.HostMetadataUpdate{
				Hostname: n.Name, Ipv4Addr: prefixText(v4), Ipv6Addr: prefixText(v6), Labels: n.Labels,
			},
		}})
		return
	}
	if w.dialect == Tiers {
		w.sendAddresses(n.Name, old, n)
	}
	w.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_HostMetadataV4V6Update{
		HostMetadataV4V6Update: &felixpb.HostMetadataV4V6Update{
			Hostname: n.Name, Ipv4Addr: prefixText(v4), Ipv6Addr: prefixText(v6), Labels: n.Labels,
		},
	}})
}

// sendAddresses sends or removes a node's first address of each family, in a message for each.
func (w *network) sendAddresses(name string, old, n *dataplane.Node) {
	old4, old6 := firstAddresses(old)
	new4, new6 := firstAddresses(n)
	switch {
	case new4.IsValid():
		w.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_HostMetadataUpdate{
			HostMetadataUpdate: &felixpb.HostMetadataUpdate{Hostname: name, Ipv4Addr: new4.Addr().String()},
		}})
	case old4.IsValid():
		w.sendHostRemove(name)
	}
	switch {
	case new6.IsValid():
		w.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_HostMetadataV6Update{
			HostMetadataV6Update: &felixpb.HostMetadataV6Update{Hostname: name, Ipv6Addr: new6.Addr().String()},
		}})
	case old6.IsValid():
		w.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_HostMetadataV6Remove{
			HostMetadataV6Remove: &felixpb.HostMetadataV6Remove{Hostname: name},
		}})
	}
}

func (w *network) removeNode(name string) {
	old := w.nodes[name]
	delete(w.nodes, name)
	if old == nil || w.send == nil {
		return
	}
	if w.dialect == Kinds {
		w.sendHostRemove(name)
		return
	}
	if w.dialect == Tiers {
		w.sendAddresses(name, old, nil)
	}
	w.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_HostMetadataV4V6Remove{
		HostMetadataV4V6Remove: &felixpb.HostMetadataV4V6Remove{Hostname: name},
	}})
}

func (w *network) sendHostRemove(name string) {
	w.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_HostMetadataRemove{
		HostMetadataRemove: &felixpb.HostMetadataRemove{Hostname: name},
	}})
}
