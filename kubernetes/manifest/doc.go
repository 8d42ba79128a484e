// SPDX-License-Identifier: Apache-2.0

// Package manifest reads Kubernetes and Calico manifests, as YAML or JSON, and converts them to
// resources.
//
// A file may have several documents. A document may be an object or a list of objects ("kind:
// List"), as kubectl get -o yaml prints them: objects from a cluster may have a status and managed
// fields, and lists may contain lists. The package also reads folders of such files. Package
// convert documents the supported kinds and their conversion.
//
// # Usage
//
// Decode decodes the content of one file; it has the type of datastore.DirConfig.Decode. ReadFiles
// and ReadDir read files of at most MaxFileSize:
//
//	resources, problems := manifest.ReadDir("manifests")
//
// The valid objects are returned even if other objects have errors, or if another document of the
// file is not valid YAML. To change settings, use the methods of a Reader.
//
// # Refused manifests
//
// A manifest decides about traffic, so the package reports an error for each part that it ignores.
// It refuses an object, so that the object has no effect, if the object has one of these:
//
//   - a kind that is not converted,
//   - an unknown field, except below status, which the cluster writes,
//   - a duplicate or merge key, or an empty entry of a list: an empty rule would allow everything,
//   - null in the spec of a Calico object or a ClusterNetworkPolicy: an empty selector would select
//     everything.
//
// The rules of policies are an exception: see below.
//
// A file that is not UTF-8 is refused, too. If two objects are converted to the same resource, the
// second object is refused, even if they are in different files that are read together. But if two
// nodes have the same pod CIDR, the second node is not refused. Only the Block resource that is
// made from its pod CIDR is left out. Documents without content are valid.
//
// The rules of policies are decoded one by one. If a rule has one of the errors above, or a value
// of the wrong type, a closed rule takes its place. A closed Allow or Log rule matches nothing. Any
// other closed rule denies every packet of its direction that reaches it, also if its action cannot
// be read. The policy stays enforced: without it, everything that it denies would be allowed.
//
// Three errors make all rules of a direction unreadable:
//
//   - The value of the field ingress or egress is not a list.
//   - The field ingress or egress is duplicated.
//   - The value of ingress or egress is null. In a NetworkPolicy of Kubernetes, null is no error:
//     it means that there are no rules.
//
// After such an error, the policy stays enforced, too: one closed rule takes the place of all rules
// of the direction. In a NetworkPolicy of Kubernetes, the closed rule allows nothing. In a
// ClusterNetworkPolicy or a Calico policy, the closed rule denies everything.
//
// A Service is not converted to a resource. Its error wraps convert.ErrIgnored, so that callers can
// distinguish this error from failures.
//
// An unquoted yes or on is a string, not a boolean, as in YAML 1.2. Integers are read as kubectl
// reads them: a leading zero means octal (0644 is 420), and 0x1f and 1_000 are valid. Field names
// are case-sensitive.
//
// The package reports at most 100 problems of one object.
//
// When aliases of a document are expanded, the values may take at most 64 KiB plus four times the
// length of the document. Values may be nested at most 100 levels deep, and lists of objects at
// most 10 levels.
//
// # Concurrency
//
// The functions and a Reader are safe for concurrent use.
//
// # Errors
//
// Every problem is an *Error with file, document, line, object and field:
//
//	shop.yaml: document 3: line 41: NetworkPolicy shop/web: spec.ingress[0].ports[1].endPort:
//	  endPort is smaller than port
package manifest
