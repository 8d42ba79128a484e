// SPDX-License-Identifier: Apache-2.0

// Package manifest reads Kubernetes and Calico manifests, as YAML or JSON, and converts them to resources.
//
// It reads files with several documents, with lists, and with objects that have a status and managed fields because
// they come from a cluster. It also reads folders of such files. A list has "kind: List", as kubectl get -o yaml prints
// it, and may contain lists. Package convert documents the supported kinds and their conversion.
//
// # Usage
//
// Decode decodes the content of one file; it has the type of datastore.DirConfig.Decode. ReadFiles and ReadDir read
// files of at most MaxFileSize:
//
//	resources, problems := manifest.ReadDir("manifests")
//
// Valid objects are returned even if other objects have errors, or if another document of the file is no valid YAML. To
// change settings, use the methods of a Reader.
//
// # Refused manifests
//
// A manifest decides about traffic, so no part of it is ignored without an error. An object is refused, and has no
// effect, if it has one of these:
//
//   - a kind that is not converted,
//   - an unknown field, except below status, which the cluster writes,
//   - a duplicate or merge key, or an empty entry of a list: an empty rule would allow everything,
//   - null in the spec of a Calico object or a ClusterNetworkPolicy: an empty selector would select everything.
//
// A file that is not UTF-8 is refused, too. If two objects are converted to the same resource, the second object is
// refused. This holds also if the objects are in several files that are read together. If two nodes have the same pod
// CIDR, only the block of the second node is refused. Documents without content are valid.
//
// The rules of policies are decoded one by one. A rule with any of these errors, or with a value of the wrong type, is
// closed (see package convert), and the policy stays in force: without the policy, everything that it denies would be
// allowed. If the action of a rule of a ClusterNetworkPolicy or a Calico policy cannot be read, the rule denies
// everything in its direction from its place on. If the value of the field ingress or egress is null or not a list, or
// if the field is there twice, one rule that denies everything takes the place of the field. In a NetworkPolicy, such a
// field allows nothing in its direction. But null means no rules there, as in Kubernetes.
//
// A Service is not converted to a resource. Its error wraps convert.ErrIgnored, so that callers can distinguish it from
// failures.
//
// An unquoted yes or on is a string, not a boolean, as in YAML 1.2. Integers are those of kubectl: a leading zero means
// octal (0644 is 420), and 0x1f and 1_000 are valid. Field names are case-sensitive.
//
// At most 100 problems of one object are reported.
//
// The expansion of a document's aliases is limited to 64 KiB and four times the length of the document. Nesting is
// limited to 100 levels, and to 10 lists of objects.
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
