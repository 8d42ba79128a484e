// SPDX-License-Identifier: Apache-2.0

package ruleset

// Epoch names a set that detects packets which may have seen a mix of two states, and the chains
// with rules that look into this set. The renderer defines both; the applier replaces the set.
//
// A packet uses the rules as they are when it enters a base chain, but the current elements of sets
// and maps. So during a transaction, one lookup may find the old state and the next one the new
// state. A transaction that a packet could see in part begins a new epoch: it replaces the set by
// one with the same name and content, and replaces the rules that look into the set. A packet that
// entered before looks into the old set, which is then empty. A packet that does not match the set
// is stale.
//
// The applier cannot begin a new epoch in a transaction whose own operations change the set,
// replace one of the chains, or change the policy of one of them.
type Epoch struct {
	Set    string   // every packet must match it
	Chains []string // the chains with rules that look into Set
}

// Stage names a base chain with policy that packets meet before other base chains with policy.
// During a change, a packet may meet the old state of this chain and the new state of the later
// ones.
//
// A change may concern both this chain and later ones, or a set into which both look. Before such a
// change, the applier adds the stage guard: a base chain behind this chain, which drops packets
// that the new state of this chain denies. After a grace period, the change follows. After a second
// one, the guard loses its rules, and after a third one it is deleted.
type Stage struct {
	// Chain is the name of the base chain. The applier copies the rules of this chain, and those of
	// the chains that it leads to. So these rules must meet three conditions. No Raw refers to sets
	// or chains. The rules use the data of a map only as the key of other maps. If several maps
	// have the same types of key and data, the rules look up the interval maps first.
	Chain string
	// Behind is the nftables priority of the stage guard. It must be greater than the priority of
	// Chain, and greater than that of the chain that evaluates its stale packets, if there is one.
	Behind int
}

// Translation names a map that destination NAT looks up. The first packet of a connection is
// translated in one hook, and filter rules see it in a later hook. While the table changes, the
// packet could be translated by the old map and filtered by the new rules. Its connection would
// keep that translation.
//
// So if a change adds, removes or replaces elements of the map, the applier first adds rules that
// drop new connections to the affected keys. There are such rules in all hooks that destination NAT
// can be in. The change follows after a grace period, and then the rules are deleted. Other
// connections are not affected. While a table without an owner is replaced, such rules drop new
// connections to all keys.
type Translation struct {
	// Map is the name of the map.
	Map string
	// Matches and Fields are those of the rule that looks up the map. The priority of the rule's
	// chain must be greater than -100, which is the priority of destination NAT.
	Matches []Match
	Fields  []Field
}
