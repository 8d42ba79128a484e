// SPDX-License-Identifier: Apache-2.0

package policy

import "net/netip"

// Block is a part of a pool that is assigned to a node. Other nodes route the addresses of the
// block to that node. The exceptions are borrowed addresses: workloads of other nodes use them, and
// each is routed to the node of its workload.
type Block struct {
	// CIDR of the block, inside a pool. Its text is the name in the block's key. Required.
	CIDR netip.Prefix `json:"cidr"`
	// Node to which the block is assigned. Empty means none: then only the borrowed addresses are
	// routed.
	Node string `json:"node,omitempty"`
	// Borrowed lists the borrowed addresses of the block, without duplicates. Empty means none.
	Borrowed []BorrowedAddress `json:"borrowed,omitempty"`
}

// BorrowedAddress is an address that a node uses from a block that is not assigned to this node.
type BorrowedAddress struct {
	// Address within the block. Required.
	Address netip.Addr `json:"address"`
	// Node that uses the address. It is not the block's node. Required.
	Node string `json:"node"`
}

// Key returns the block's key. Its name is the text of CIDR, so the key is correct only if CIDR is
// canonical.
func (b *Block) Key() Key { return Key{Kind: KindBlock, Name: b.CIDR.String()} }

func (*Block) resource() {}

// Validate reports all problems of the block as one *ValidationError, or nil.
func (b *Block) Validate() error {
	v := &validator{}
	known := v.cidr(b.CIDR)
	if b.Node != "" {
		v.name("node", b.Node)
	}
	if !v.atMost("borrowed", len(b.Borrowed), maxBorrowed) {
		return v.err(b.Key())
	}
	seen := map[netip.Addr]bool{}
	for i, a := range b.Borrowed {
		v.enter("borrowed", i)
		switch {
		case !a.Address.IsValid():
			v.add("address", "required")
		case a.Address.Is4In6():
			v.add("address", "an IPv4-mapped address is not canonical (see Canonical)")
		case known && !b.CIDR.Contains(a.Address):
			v.add("address", "%s is not in %s", a.Address, b.CIDR)
		case seen[a.Address]:
			v.add("address", "%s is given twice", a.Address)
		}
		seen[a.Address] = true
		v.name("node", a.Node)
		if a.Node != "" && a.Node == b.Node {
			v.add("node", "%q is the block's own node, which does not need to borrow", clip(a.Node))
		}
		v.leave()
	}
	return v.err(b.Key())
}
