console.log(`the note was: ${process.env.STATE_text}`)
