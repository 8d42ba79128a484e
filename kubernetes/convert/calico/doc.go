// SPDX-License-Identifier: Apache-2.0

// Package calico holds the Calico v3 API objects (projectcalico.org/v3) that Wayleave
// converts, as plain structs for a strict JSON or YAML decoder.
//
// The Calico project's own API module is not published in a form that Go's module proxy
// serves, so these are written anew from the public API: same field names, same
// meaning, and only what is needed. This is the one place where Wayleave keeps its own copy of
// somebody else's types.
//
// # Usage
//
// Decode with a decoder that refuses unknown fields, as package manifest does, and hand the object
// to package convert. A field that Calico has and Wayleave does not support is of type Unsupported:
// decoding it is no error, converting an object that sets it is, and the error names the field. One
// that has no part in what Wayleave does is of type Ignored, and takes any value.
//
// # Concurrency
//
// The types are plain data: safe to read from several goroutines while nobody writes.
//
// # Errors
//
// The package has no functions that fail. All checks are made by package convert.
package calico
