// What to write so that there is something to see.

//: A first task, a worker for it, and a job.
export const SAMPLE = `# app.py
import asyncio
import kue

q = kue.Kue()

@q.task
async def send_email(to: str) -> str:
    return f"sent to {to}"

async def main():
    await send_email.enqueue("ann@example.com")
    await q.close()

if __name__ == "__main__":
    asyncio.run(main())

# python app.py          adds a job
# kue worker app:q       runs it`;
