// SPDX-License-Identifier: Apache-2.0

// Package probe has the formats of `cluster faults` and the prober in the pods: payloads, the file
// of targets, and the lines that a prober prints.
//
// # Usage
//
// The prober makes payloads with Payload.String, and lines by encoding a Line as JSON. The receiver
// parses payloads, and `cluster faults` decodes lines.
//
// # Concurrency
//
// The functions may be called concurrently.
//
// # Errors
//
// Parsing returns an error for a payload of another program.
package probe
