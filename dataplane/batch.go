// SPDX-License-Identifier: Apache-2.0

package dataplane

// Empty reports whether the batch has no events.
func (b Batch) Empty() bool { return len(b.Events) == 0 }

// CarriesInSync reports whether the batch completes the initial state: its last event is InSync.
func (b Batch) CarriesInSync() bool {
	if b.Empty() {
		return false
	}
	_, ok := b.Events[len(b.Events)-1].(*InSync)
	return ok
}

// OnlyNetwork reports whether the batch has events, and all of them are events of routes, tunnels,
// nodes, pools, services, namespaces or service accounts. Such a batch changes neither policy nor
// local endpoints.
func (b Batch) OnlyNetwork() bool {
	for _, e := range b.Events {
		switch e.(type) {
		case *RouteUpdate, *RouteRemove, *TunnelUpdate, *TunnelRemove,
			*NodeUpdate, *NodeRemove, *PoolUpdate, *PoolRemove, *ServiceUpdate, *ServiceRemove,
			*NamespaceUpdate, *NamespaceRemove, *ServiceAccountUpdate, *ServiceAccountRemove:
		default:
			return false
		}
	}
	return !b.Empty()
}
