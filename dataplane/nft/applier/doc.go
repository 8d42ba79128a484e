// SPDX-License-Identifier: Apache-2.0

// Package applier keeps one nftables table in the kernel as it is desired: the first time it adopts what is there, from then on
// it writes what changes, and it notices when another process interferes. It knows the language of nftables, by way of package ruleset, and nothing
// of policy, so that any program can manage a table of its own with it. It talks netlink, and needs no nft program.
//
//	Update(delta) ─▶ ruleset.State ─▶ operations ─▶ one transaction ─▶ nf_tables
//	                     ▲                              │ refused, or the table was touched
//	                     └── compare ◀── read back ◀────┘      ▲
//	                                          notifications ───┘ Watch
//
// # Usage
//
//	a, err := applier.New(applier.Config{Name: "mine"})
//	err = a.Apply(ctx, table)           // all of it: the first time, it adopts
//	err = a.Update(ctx, &ruleset.Delta{ // or what is different: in proportion to that
//		Elements: []ruleset.ElementDelta{{Set: "blocked", Add: elements}},
//	})
//	go a.Watch(ctx, func(d applier.Drift) { wake <- d }) // then the owner calls a.Resync(ctx)
//
// What is programmed is listed by nft, version 1.0.6 and later. The table must be this program's alone: what is in it and not desired is removed,
// stateful objects and flowtables included. Other tables are not touched. Several Appliers may be in one process, one for each table.
//
// # Transactions
//
// A change is one transaction, but for what follows: packets see the old state or the new one, and a refused transaction leaves no trace. Rules are known by
// their handles, so counters of rules that stay survive, and every transaction is good for one generation of the ruleset only: if another process
// commits anything in between, the kernel refuses it. The notifications then tell whether that was about our table. If
// not, it is sent again at once; if so, or if notifications were lost, the table is read back first.
//
// The kernel itself shows two things later than the rest of a transaction, by about a microsecond for each object in it: the policy of a new base chain, which
// accepts until then, and the elements of interval sets. So a base chain whose policy is to drop gets a last rule that drops, until a
// second transaction; new interval sets are filled before anything looks into them; and where interval sets change together with
// other things that packets see, in a transaction of more than 64 objects, the chains concerned drop meanwhile, as below. In a smaller one, a packet that is
// under way at that very moment may be judged by the new rules and the old intervals. A policy of a chain that stays changes late as well: where other things
// change with it, it becomes accept in a second transaction, and if it becomes drop, a last rule drops until then.
//
// The kernel writes every element of a transaction down for whoever listens to notifications, in any network namespace, which
// doubles the time that a large one takes. An Applier does not listen to its own large transactions: the numbers of the generations tell
// that nobody else's came between. Other listeners, such as "nft monitor", have their price all the same.
//
// A transaction that is larger than Config.MaxBatch, or than what the kernel takes of an ordinary user (net.core.wmem_max), is done in parts. First
// comes what is new: sets with their elements, chains with their rules. Nothing leads to them yet. Then, in one transaction, all
// that packets see: elements and rules of what is there already, and base chains. Last, what nothing leads to any more. If the
// second of these is too large by itself, all chains that it changes, and all that look into sets that it changes, first get a rule at
// their head that drops, which goes with the last part: for that moment, what passes them is dropped. Nothing is let through at any moment that
// the old state and the new one both forbid. Two things cannot be done in parts, and fail with EMSGSIZE: to make something again under its
// name that has another type or hook, and to replace a table that another process has filled with what stands in the way.
//
// # Adoption
//
// The first call, and the first one after a failure or after a foreign change, reads the table back and compares it: rules by the hash of what we wrote, which is in their
// userdata, and by the raw bytes of their expressions, names of chains and sets included; sets by their type and every element. What is
// equal stays untouched, counters and all, and if everything is, nothing is written. Another policy of a base chain is changed in place, and a chain with
// another hook is made again on its own; but for a set of another type the whole table is made anew, and all counters with it.
//
// # Refusals
//
// If the kernel refuses a transaction, the table is read back and it is tried once more. If it is refused again, the Applier finds the objects
// at fault, from the kernel's answers, or where these name none, by halves; for this it has the kernel check transactions without doing them. A chain
// at fault is then programmed as one that drops; a set at fault is left out, and the chains that look into it drop. Everything else is
// programmed, so what does not pass these chains is judged by the new state and by nothing else: nothing is let through that the new state forbids. If that would
// take a base chain, nothing is written at all. While something is held back, every call reads the table back and tries it again.
//
// # Concurrency
//
// An Applier is for one goroutine at a time. Watch alone may run in another one meanwhile.
//
// # Errors
//
// What concerns the kernel is a *dataplane.ApplyError, with the kernel's own words as its Detail. Its cause is an *ObjectError for each object that is held
// back, in which case everything else is programmed. *FeatureError says that the kernel is too old. After any error the desired state stays, and the next call tries again.
package applier
