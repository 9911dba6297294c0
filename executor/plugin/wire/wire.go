// Package wire is what both ends of a connection to an executor plugin share beyond the handshake: the contract's types and errors as messages
// of api/rung/executor/v1.
package wire

// Chunk is how many bytes of a stream one message holds at most.
const Chunk = 64 << 10
