// SPDX-License-Identifier: Apache-2.0

package ruleset

// Epoch names a set and the chains with rules that look into it. A packet that does not match the
// set is stale: it may have used the old state in one lookup and the new state in another.
//
// A packet uses the rules as they are when it enters a base chain, but the current elements of
// sets and maps. A transaction that a packet could use in part begins a new epoch: it replaces the set
// by one of the same name and content, and the rules that look into it. A packet that entered before
// looks into the old set, which is empty from then on.
//
// A transaction begins no new epoch if its own operations change the set, add or replace such a rule,
// or add, delete or change the policy of such a chain.
type Epoch struct {
	Set    string   // must match every packet
	Chains []string // the chains with rules that look into Set
}

// Stage names a base chain that packets meet before another base chain with policy. A packet may meet the
// old state of one and the new state of the other.
//
// So if a change concerns this chain and later ones as well, be it by a set into which both look, the applier
// first adds a base chain behind it, which also denies what the new state of this chain denies. After a grace
// period the change follows, and after another one that base chain is deleted.
type Stage struct {
	// Chain is the name of the base chain. Its rules, and those of the chains it leads to, have no Raw that
	// refers to sets or chains. What they look up in a map with data is only a key of other maps. If several
	// maps have the same fields as keys and the same data, those of intervals come first.
	Chain string
	// Behind is a priority greater than that of Chain, and than that of a chain for its stale packets.
	Behind int
}

// Translation names a map that destination NAT looks up. Destination NAT translates the first
// packet of a connection in one hook; filter rules see it in a later one. While the table changes,
// the old map could translate it and the new rules filter it. Its connection would keep that
// translation.
//
// So if a change adds, removes or replaces elements of the map, the applier first adds drop rules
// for new connections to these keys. They are in all hooks that destination NAT can be in. After a
// grace period the change follows, and then the drop rules are deleted. Other connections are not
// affected. The replacement of a table without an owner is guarded in the same way, for all keys.
type Translation struct {
	// Map is the name of the map.
	Map string
	// Matches and Fields are those of the rule that looks up the map. The priority of that rule's
	// chain must be a number greater than -100, the priority of destination NAT.
	Matches []Match
	Fields  []Field
}
