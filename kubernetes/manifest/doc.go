// SPDX-License-Identifier: Apache-2.0

// Package manifest reads Kubernetes and Calico manifests, as YAML or JSON, into the
// resources that Wayleave works from.
//
// It takes what users have: streams of many documents, lists ("kind: List", as kubectl get -o yaml
// prints them, and lists of lists), objects with a status and managed fields as they come out of a
// cluster, folders of such files. Package convert says which kinds there are and what becomes of
// them.
//
// # Usage
//
// Decode reads one file's content; it has the form that datastore.DirConfig asks for.
// ReadFiles and ReadDir read from disk, from files of at most MaxFileSize:
//
//	resources, problems := manifest.ReadDir("manifests")
//
// What is good is returned whatever is wrong beside it: a document that does not parse does not
// take its neighbours with it. Settings are fields of a Reader.
//
// # What is refused
//
// A manifest decides what may talk to what, so nothing in it is skipped over in silence. Refused
// with an error, and absent, are: objects of a kind that is not converted, fields that the kind
// does not have (except below status, which is the cluster's to write), keys given twice, empty
// entries of a list (an empty rule would allow everything), null in the spec of a Calico object or
// a ClusterNetworkPolicy (an empty selector would select everything), merge keys, files that are
// not UTF-8. Of two objects of one name, in one file or several that are read together, the second
// is refused; of two nodes with one pod CIDR, the block of the second. Documents without content
// are fine.
//
// The rules of policies are read one by one. A rule with any of these errors, or with a value of
// the wrong type, is closed alone, see package convert, and the policy stays in force. Without the
// policy, everything that it denies would be allowed. A rule of a ClusterNetworkPolicy or a Calico
// policy whose action cannot be read denies everything in its direction, from its place on. So do
// rules of a direction that are null, given twice or no list. A NetworkPolicy whose rules of a
// direction are no list, or given twice, allows nothing there; null means no rules, as in
// Kubernetes.
//
// A Service is known and makes nothing. It is reported, as an error that wraps convert.ErrIgnored:
// callers for whom every other problem is a failure can tell it apart.
//
// An unquoted yes or on is a string, not a truth value, as in YAML 1.2. Whole numbers are those of
// kubectl: one with a leading zero is octal (0644 is 420), and 0x1f and 1_000 are numbers too.
// Field names are compared with their case.
//
// Of one object at most 100 problems are listed.
//
// What the aliases of a document stand for is limited to 64 KiB and four times the length of the
// document; nesting, to 100 levels, and 10 lists of objects in each other.
//
// # Concurrency
//
// The functions and a Reader may be used by several goroutines.
//
// # Errors
//
// Every problem is an *Error with file, document, line, object and field:
//
//	shop.yaml: document 3: line 41: NetworkPolicy shop/web: spec.ingress[0].ports[1].endPort:
//	  endPort is smaller than port
package manifest
