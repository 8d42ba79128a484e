// SPDX-License-Identifier: Apache-2.0

// Package applier keeps one nftables table in the kernel in its desired state. The first call of
// Apply or Update adopts the table that is in the kernel: it reads this table and keeps the objects
// that match the desired state. Later calls write only changes. If the kernel supports table
// owners, no other process can change the table. The package does not depend on policy, so any
// program can manage a table with it. It uses netlink, and needs no nft program. (To list the table
// with nft, use version 1.0.6 or later.)
//
//	Update(delta) ─▶ ruleset.State ─▶ operations ─▶ one transaction ─▶ nf_tables
//	                     ▲                              │ refused, or the table was touched
//	                     └── compare ◀── read back ◀────┘      ▲
//	                                          notifications ───┘ Watch
//
// Package internal/encode turns operations into netlink messages. Package internal/readback
// compares the kernel's table with the desired one. The applier decides which operations are
// written, and in which order.
//
// # Usage
//
//	a, err := applier.New(applier.Config{Name: "mine"})
//	err = a.Apply(ctx, table)           // the whole table: the first time, it adopts
//	err = a.Update(ctx, &ruleset.Delta{ // or a change, in time in proportion to it
//		Elements: []ruleset.ElementDelta{{Set: "blocked", Add: elements}},
//	})
//	go a.Watch(ctx, func(d applier.Drift) { wake <- d }) // then the owner calls a.Resync(ctx)
//
// An Applier does not retry by itself. After an error, the program that uses it must call a.Resync
// after a while. examples/portforward has a loop that does this and handles drifts.
//
// The table must belong to this program alone, because the Applier removes all objects that are not
// desired. This includes stateful objects and flowtables. Apply, PlanTable, Update and Compare
// refuse a desired table with flowtables. The Applier writes to no other table, except to a
// temporary table of its own whose name ends with "-guard". A process may have several Appliers,
// one for each table.
//
// # Transactions
//
// A change is one transaction, with the exceptions below. So packets see either the old state or
// the new one, and a transaction that the kernel refuses has no effect. The Applier identifies
// rules by their handles, so unchanged rules keep their counters.
//
// Each transaction names the generation of the ruleset for which it was made. If another process
// commits a transaction in between, the generation is another one, and the kernel refuses our
// transaction. The notifications then show whether our table changed. If it did not, the Applier
// sends the transaction again at once. If the table changed, or if notifications were lost, the
// Applier reads the table back first.
//
// A packet uses the rules of the generation in which it entered a base chain, but the current
// elements of sets. The kernel keeps only two generations. If two transactions are committed while
// a packet is delayed, the packet uses the newest rules in each chain that it enters afterwards. So
// without Config.Epoch, a packet may use parts of two states.
//
// The kernel makes two kinds of changes a little later than the rest of their transaction. The
// delay is about a microsecond for each object in the transaction.
//
//   - Changes of a base chain's policy. Therefore the Applier changes a policy in three
//     transactions. The first adds a rule with the verdict of the new policy to the end of the
//     chain. After a grace period, the second changes the policy. The third removes the rule. A new
//     base chain with the policy drop gets such a rule, too.
//   - Changes of elements of interval sets. Therefore the Applier fills a new interval set before
//     it adds a rule that looks into the set.
//
// A transaction may add a chain together with an element of a map that leads to the chain. A packet
// on the previous generation may find the element, but to this packet the chain is empty. So it
// returns from the chain without a decision. With Config.Epoch, the table detects such packets: the
// Epoch names a set that normally matches every packet. Each such transaction puts an equal set in
// its place, and empties the old set. A packet on the previous generation looks into the old set,
// and finds no match. Rules of the table then evaluate this packet from the beginning.
// ruleset.Epoch has the details. In a table with an Epoch, rules must look into the set before they
// drop an undecided packet. Otherwise they would drop a packet on the previous generation, although
// both states may allow it.
//
// While the Applier replaces base chains or the whole table, a second table, the guard, drops all
// packets at the hooks of the old base chains. It drops no packets at hooks of base chains of type
// nat. The name of the guard is that of the first table with the suffix "-guard".
//
//   - If a transaction deletes base chains and adds none, the Applier normally uses no guard. This
//     leaves a gap if the transaction also moves rules from a deleted base chain to another base
//     chain: a packet that is under way may pass both chains without being evaluated by these
//     rules.
//   - In two cases, the Applier uses the guard even if the transaction adds no base chain. In the
//     first case, the table in the kernel has no set of the Epoch yet: the rules that packets under
//     way use do not look into this set. In the second case, the transaction deletes base chains
//     that another process or an earlier process has added.
//   - The Applier deletes the guard after a grace period. If the deletion fails, the next call
//     tries again. From Linux 5.12 on, the kernel deletes the guard when the process ends. In any
//     case, the guard stops dropping packets after ten seconds.
//
// When a transaction deletes a base chain, packets still pass the chain for a moment. The chain
// still has its rules, but the sets of these rules are already empty. So the rules may drop packets
// that both states allow. If the base chain has the policy accept, and no other chain replaces it,
// the Applier prevents this with two transactions: the first one deletes the rules of the chain,
// and the second one deletes the chain.
//
// The kernel sends a notification for each element of a transaction to listeners in all network
// namespaces. This doubles the time of a large transaction. Therefore the Applier does not listen
// during its own large transactions: the generation numbers show whether another transaction came
// in between. Other listeners, such as "nft monitor", still double the time.
//
// # Shadows
//
// The kernel changes all elements of one interval set at one moment, but a little later than the
// rest of the transaction. So if a packet uses both this set and another object that changes, the
// packet may see the new state of one and the old state of the other. One transaction is therefore
// enough only in these cases:
//
//   - The Delta has Apart set: its author promises that each packet looks up at most one of the
//     changed elements.
//   - There is no Config.Epoch, and the change concerns only elements of one interval set, or of
//     one for IPv4 and one for IPv6. With an Epoch, the transaction would also replace the set of
//     the Epoch, and packets would see that at another moment.
//
// All other changes of interval sets take five steps, with shadows. A shadow is a copy of a set or
// chain in its new state:
//
//	build    a shadow of each set whose elements change, and of each chain whose rules change or
//	         look into such a set; rules of shadow chains look into shadow sets
//	live     after a grace period, one transaction: each such chain gets a first rule "goto shadow-N"
//	sync     after a grace period, the sets and chains themselves change
//	back     the first rules are deleted
//	destroy  after a grace period, the shadows are deleted
//
// All packets see the whole change from the step "live" on. A packet that both states allow is not
// lost, and a packet that both states forbid does not pass. Without Config.Epoch, this is not
// certain for a packet that is delayed while two transactions are committed: one of another
// process, and then that of the step "live".
//
// During the steps, the kernel needs memory for the shadows. Apply and Update take about 60 ms,
// because they wait for three grace periods (membarrier). The rules of the original chains keep
// their counters and limits, but these do not count the packets that pass shadows. A shadow has its
// own counters and limits, which start at zero. A change that concerns neither interval sets nor
// rules with intervals needs no shadows.
//
// If a transaction is larger than Config.MaxBatch, or larger than the kernel accepts from an
// ordinary user (net.core.wmem_max), the Applier splits it: the first part adds new objects, the
// second part changes the objects that packets use, and the third part deletes objects that no
// packet can reach any more. If the second part is still too large, the Applier uses shadows for
// it, because it can fill and synchronize shadows in any number of transactions.
//
// If a process ends between two transactions, the next process removes the shadows when it adopts
// the table. If the kernel refuses a step up to "live", packets see the old state. If it refuses a
// later step, they see the new state. The Applier then reads the table back and completes the
// change.
//
// Shadows are not possible in these cases:
//
//   - The type of a set changes, or its elements have timeouts.
//   - A ruleset.Raw looks into the set.
//   - The hook of a base chain changes.
//   - With the shadows, a packet could take more than 15 jumps one inside another. A jump to a
//     chain with a shadow counts as two. When the Applier adopts a table, each jump counts as two.
//
// In these cases, the affected chains drop all packets while one transaction makes the change. If
// the change does not fit into one transaction, it fails with EMSGSIZE. If the table has
// conflicting objects of another process, the Applier replaces the whole table. This fails with
// EMSGSIZE, too, if the new table does not fit into one transaction.
//
// Up to Linux 6.16, a lookup may miss an element of an interval set while a transaction replaces
// the element by one that overlaps it. So on these kernels, the Applier uses shadows for such
// replacements, too. In a set with concatenations, it uses shadows for every replacement of
// elements.
//
// The step "live" takes about 130 bytes of a transaction for each chain. If it does not fit into
// one transaction, the change uses no shadows: the affected chains drop all packets until the
// change is complete.
//
// # Translations
//
// Destination NAT translates a new connection in one hook, and filter rules see it in a later hook.
// During a change, the connection could be translated by the old state and filtered by the new one.
// So if a change adds, removes or replaces elements of a map in Config.Translations, the Applier
// first adds a translation guard: two temporary base chains that drop new connections to the keys
// of these elements. After a grace period, it makes the change. The last transaction deletes the
// guard. While a table without an owner is replaced, such guards drop new connections to all keys
// of the old and the new maps: first a guard in the old table, then one in the new table.
//
// # Stages
//
// A table may have several base chains that decide about packets, and a packet may pass several of
// them, one after the other. During a change, a packet can meet the old state in one of these base
// chains and the new state in a later one. To prevent this, list in Config.Stages each of these
// base chains that packets pass before another one. A base chain in this list is called a stage.
//
// If a change concerns both a stage and later chains, or a set into which both look, the Applier
// first adds a stage guard. This is a temporary base chain that packets pass after the stage. It
// evaluates a copy of the stage's new state, and drops packets that the copy denies. After a grace
// period, the Applier makes the change. After a second grace period, it deletes the rules of the
// stage guard, and after a third one, the stage guard and the copy. So a packet passes only if the
// old state as a whole or the new state as a whole allows it. During the change, rules of the stage
// may log a packet twice.
//
// # Ownership
//
// From Linux 6.9 on, a netlink socket can own a table, and the table stays when the socket is
// closed. New checks whether the kernel supports this. If so, the Applier owns the table from its
// first call on: the kernel refuses the writes of every other socket with EPERM, and "nft flush
// ruleset" skips the table. After Close, or after the process ends in any way, the table has no
// owner. The next Applier takes the table over with one message, which changes only the owner.
// While the table has an owner, a second Applier of this table gets an *OwnedError, and writes
// nothing.
//
// A table that was created without an owner cannot get one. So the Applier replaces it in one
// transaction, and its counters start at zero. If the table is too large for that, or the kernel
// refuses it three times, it stays without an owner. The log and Stats.Owned report this. On older
// kernels, and with Config.Shared, no table has an owner: the Applier detects and repairs changes
// by other processes.
//
// # Adoption
//
// The first call reads the table back and compares it with the desired one. The next call after a
// failure, or after a change by another process, does the same.
//
//   - A rule is compared by the hash in its userdata, and by the bytes of its expressions with the
//     names of chains and sets.
//   - A set is compared by its type and all its elements.
//
// Equal objects stay as they are, with their counters. If all are equal, only the owner of the
// table is written. The policy of a base chain is changed in place, and a chain with another hook
// is replaced alone. But if a set has another type than desired, the whole table is replaced, and
// all counters start at zero.
//
// # Refusals
//
// If the kernel refuses a transaction, the Applier reads the table back and retries once. If the
// kernel refuses it again, the Applier finds the objects at fault. Either the kernel's answers name
// them, or the Applier finds them by bisection: it sends trial transactions, which the kernel
// checks and does not commit. In place of a chain at fault, it programs a chain that drops all
// packets. It leaves out a set at fault, and in place of the chains that look into this set, it
// programs chains that drop all packets. Everything else is programmed, so a packet that the new
// state forbids never passes. If a base chain is at fault, nothing is written. While an object is
// held back (left out because the kernel refuses it), every call reads the table back and tries the
// object again.
//
// # Concurrency
//
// Only one goroutine at a time may use an Applier. Other goroutines may call Watch and Table
// meanwhile.
//
// # Errors
//
// An error of the kernel is an *Error. Its Detail has the kernel's message. Its cause may be:
//
//   - an *ObjectError, for an object that is held back. Then everything else is programmed.
//   - an *OwnedError, if another process owns the table.
//
// After any error the desired state stays, and the next call tries again.
package applier
