// SPDX-License-Identifier: Apache-2.0

package policy

import "net/netip"

// IPPool is a range of addresses that workloads get theirs from. Readers may share an IPPool
// that nobody changes.
type IPPool struct {
	// Name of the pool. Required.
	Name string `json:"name"`
	// CIDR of the pool, without addresses that are link-local, multicast or loopback. Required.
	CIDR netip.Prefix `json:"cidr"`
	// VXLANMode says when traffic between nodes for the pool is encapsulated in VXLAN. Empty
	// means Never.
	VXLANMode EncapMode `json:"vxlanMode,omitempty"`
	// IPIPMode says the same of IP in IP, which is for IPv4 alone. Empty means Never. One of
	// VXLANMode and IPIPMode must be Never.
	IPIPMode EncapMode `json:"ipipMode,omitempty"`
	// NATOutgoing translates the source of what workloads of the pool send to addresses
	// outside all pools to that of their node. False, the default, leaves it alone.
	NATOutgoing bool `json:"natOutgoing,omitempty"`
	// Disabled pools give out no new addresses; what is said of their addresses still counts.
	// False is the default.
	Disabled bool `json:"disabled,omitempty"`
}

// EncapMode says when traffic between nodes is encapsulated; see Encapsulates. It is a plain
// value and safe for concurrent use.
type EncapMode string

// The modes.
const (
	// EncapNever routes without encapsulation.
	EncapNever EncapMode = "Never"
	// EncapAlways encapsulates to every other node.
	EncapAlways EncapMode = "Always"
	// EncapCrossSubnet encapsulates only to nodes that are in another subnet, as the lengths of the
	// nodes' addresses say.
	EncapCrossSubnet EncapMode = "CrossSubnet"
)

// Block is a part of a pool that is assigned to a node, to which the others send all of
// it but for the borrowed addresses. Readers may share a Block that nobody changes.
type Block struct {
	// CIDR of the block, within some pool; its text is the name in the block's key. Required.
	CIDR netip.Prefix `json:"cidr"`
	// Node that the block is assigned to. Empty means none (any more): only the borrowed
	// addresses lead anywhere.
	Node string `json:"node,omitempty"`
	// Borrowed are the addresses of the block that other nodes use, each once. Empty means none.
	Borrowed []BorrowedAddress `json:"borrowed,omitempty"`
}

// BorrowedAddress is an address of a block that another node than the block's uses. It is a
// plain value; it is safe for concurrent use.
type BorrowedAddress struct {
	// Address within the block. Required.
	Address netip.Addr `json:"address"`
	// Node that uses it, another than the block's own. Required.
	Node string `json:"node"`
}
