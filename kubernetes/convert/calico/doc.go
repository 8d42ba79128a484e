// SPDX-License-Identifier: Apache-2.0

// Package calico has Go types for the Calico v3 API objects (projectcalico.org/v3) that Wayleave
// converts. Use them with a strict JSON or YAML decoder.
//
// The Go module proxy does not serve a usable module of Calico's API, so this package defines its
// own types. Their fields have the names and meanings of Calico's API.
//
// # Usage
//
// Decode an object with a decoder that refuses unknown fields, as package manifest does, and
// convert the object with package convert. If Wayleave does not support a field of Calico, the
// field has the type Unsupported. Such a field can be decoded. But if an object sets the field, the
// conversion of the object returns an error that names the field. A field that has no effect in
// Wayleave has the type Ignored, which accepts any value. The types lack some other fields of
// Calico. The decoder refuses objects with such a field.
//
// # Concurrency
//
// The types are plain data. Several goroutines may read an object while no goroutine changes it.
//
// # Errors
//
// The package has no functions that fail. Package convert makes all checks.
package calico
