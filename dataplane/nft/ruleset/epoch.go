// SPDX-License-Identifier: Apache-2.0

package ruleset

// Epoch names a set that serves to detect stale packets, and the chains with rules that reference
// this set. A packet is stale if it may have seen a mix of two states: the one before a transaction
// and the one after it. The renderer defines the set and the rules; the applier replaces the set.
//
// A packet in a base chain uses the rules that the kernel had when the packet entered the chain.
// But each lookup finds the elements that the set or map has at that moment. So if a transaction
// comes between two lookups, the packet may see old elements first and new ones later.
//
// If a transaction could have this effect, it begins a new epoch. It deletes the set, adds a set
// with the same name and elements, and replaces the rules that reference the set. A packet that
// entered the base chain before the transaction still uses the old rules. The old rules reference
// the deleted set, which is empty. So the packet does not match: it is stale.
//
// The applier adds these operations to each such transaction, unless the transaction already does
// one of the following:
//
//   - It changes the set.
//   - It replaces a chain in Chains.
//   - It changes the policy (accept or drop) of a base chain in Chains.
type Epoch struct {
	Set    string   // every packet must match it
	Chains []string // the chains with rules that reference Set
}

// Stage names a base chain that evaluates network policy before other base chains do. During a
// change, a packet could see the old state of this chain and the new state of a later one.
//
// So the applier takes four steps if a change concerns both this chain and a later one, or a set
// that both reference. After each of the first three steps, it waits for a grace period:
//
//  1. It adds the stage guard, which is a base chain behind this chain. The stage guard drops
//     packets that the new state of this chain denies.
//  2. It makes the change.
//  3. It deletes the rules of the stage guard.
//  4. It deletes the chain of the stage guard.
type Stage struct {
	// Chain is the name of the base chain. The applier copies the rules of this chain, and of the
	// chains to which it leads, into the stage guard. So these rules must meet three conditions:
	//
	//   - No Raw refers to sets or chains.
	//   - The data that a rule finds in a map serves only as a key, to look up other maps.
	//   - If several maps have the same types of key and data, the rules look up the interval maps
	//     first.
	Chain string
	// Behind is the nftables priority of the stage guard. It must be greater than the priority of
	// Chain. If a second base chain evaluates the stale packets of Chain (see Epoch), Behind must
	// also be greater than the priority of the second chain.
	Behind int
}

// Translation names a map that destination NAT looks up. The first packet of a connection is
// translated in one hook, and filtered in a later hook. During a change, the packet could be
// translated by the old map and filtered by the new rules. Its connection would keep the old
// translation.
//
// So while a change adds, removes or replaces elements of the map, the applier drops new
// connections to the keys of these elements. Other connections are not affected.
//
// A table can have an owner: a netlink socket that alone may change the table. To give an owner to
// a table that was made without one, the applier replaces the whole table. Meanwhile, the applier
// drops new connections to all keys of the old and of the new map.
type Translation struct {
	// Map is the name of the map.
	Map string
	// Matches and Fields are those of the rule that looks up the map. The base chain of this rule
	// must have a priority greater than -100 (NF_IP_PRI_NAT_DST).
	Matches []Match
	Fields  []Field
}
