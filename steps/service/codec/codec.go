// Package codec writes and reads the messages of the service in buffers that fit them.
//
// gRPC's own buffers have 32 KiB or 1 MiB. Of those, a thousand clients that do not read what they follow would hold gigabytes, and for each
// piece of a log that is longer than 32 KiB a megabyte would be cleared.
package codec

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/encoding"
	encodingproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// codec implements encoding.CodecV2.
type codec struct {
	encoding.CodecV2
	pool mem.BufferPool
	most int
}

// New returns a codec with buffers of its own. It is safe for concurrent use. It reads no message that holds more than most others, at any depth; 0 is no limit.
// An empty one takes two bytes on a connection, and more than a hundred in memory.
func New(most int) encoding.CodecV2 {
	// The third and fourth size hold one short piece of a log, and two; the fifth a long one and a short one.
	pool := mem.NewTieredBufferPool(4<<10, 16<<10, 34<<10, 68<<10, 164<<10, 1<<20)
	return &codec{CodecV2: encoding.GetCodecV2(encodingproto.Name), pool: pool, most: most}
}

// Marshal implements encoding.CodecV2.
func (c *codec) Marshal(v any) (mem.BufferSlice, error) {
	message, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is not a message", v)
	}
	size := proto.Size(message)
	if mem.IsBelowBufferPoolingThreshold(size) {
		data, err := proto.MarshalOptions{UseCachedSize: true}.Marshal(message)
		return mem.BufferSlice{mem.SliceBuffer(data)}, err
	}
	buf := c.pool.Get(size)
	if _, err := (proto.MarshalOptions{UseCachedSize: true}).MarshalAppend((*buf)[:0], message); err != nil {
		c.pool.Put(buf)
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(buf, c.pool)}, nil
}

// Unmarshal implements encoding.CodecV2.
func (c *codec) Unmarshal(data mem.BufferSlice, v any) error {
	message, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is not a message", v)
	}
	buf := data.MaterializeToBuffer(c.pool)
	defer buf.Free()
	if c.most > 0 && len(buf.ReadOnlyData()) > c.most { // each takes a byte at least
		left := c.most
		if err := count(buf.ReadOnlyData(), message.ProtoReflect().Descriptor(), &left, maxDepth); err != nil {
			return err
		}
	}
	return proto.Unmarshal(buf.ReadOnlyData(), message) // copies what it keeps
}

// maxDepth is how deep messages may be in each other where they are counted: no more than the values in them.
const maxDepth = 1000

var errTooMany = errors.New("the message holds more others than are accepted")

// count takes the messages in the encoded one off those that are left.
func count(data []byte, of protoreflect.MessageDescriptor, left *int, depth int) error {
	if depth == 0 {
		return errTooMany
	}
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return protowire.ParseError(n)
		}
		data = data[n:]
		size := protowire.ConsumeFieldValue(number, kind, data)
		if size < 0 {
			return protowire.ParseError(size)
		}
		field := of.Fields().ByNumber(number)
		if kind == protowire.BytesType && field != nil && (field.IsList() || field.Message() != nil) {
			if *left--; *left < 0 {
				return errTooMany
			}
			if field.Message() != nil {
				inner, _ := protowire.ConsumeBytes(data)
				if err := count(inner, field.Message(), left, depth-1); err != nil {
					return err
				}
			}
		}
		data = data[size:]
	}
	return nil
}
